#pragma once

// Networks by their layers with weights, each as one matrix: what rivals need that look inside. A
// convolution is a dense layer that is applied to the patch at every position of an image. For .cpp
// files only: our headers do not show Eigen.

#include <Eigen/Core>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "oubli/data/image_set.h"
#include "oubli/filtration/eigen.h"
#include "oubli/nn/network.h"

namespace oubli {

// Of each layer, the head last: units x (inputs + 1), the bias being the weight of a last input 1.
// The inputs of a convolution are its patch, channels x k x k.
using LayerWeights = std::vector<RowMajorMatrix>;

// Error{usage} unless the layers with weights are dense ones and convolutions, with biases.
[[nodiscard]] LayerWeights layer_weights(const nn::Network& network);
// `network` with these weights; the head may have another number of rows.
[[nodiscard]] nn::Network with_weights(const nn::Network& network, const LayerWeights& weights);

// What a layer is given for a few images, and what it does to their loss.
struct LayerBatch {
  std::size_t layer = 0;
  Eigen::Index positions = 1;  // of an image, in consecutive rows; 1 if the layer is dense
  RowMajorMatrix inputs;       // (images x positions) x (inputs + 1)
  RowMajorMatrix deltas;       // (images x positions) x units: each image's own gradient with
                               // respect to the outputs before their relu; empty if not asked for
};
// The gradient of each image's loss with respect to its logits, both images x classes.
using LogitsGradient = std::function<RowMajorMatrix(const RowMajorMatrix& logits,
                                                    std::span<const std::size_t> images)>;
// Calls `visit` for all layers, or those from `first` on, of batch after batch. `gradient` may be
// empty: no deltas.
void visit_layers(const nn::Network& network, const ImageSet& set,
                  std::span<const std::size_t> images, const LogitsGradient& gradient,
                  const std::function<void(const LayerBatch& batch)>& visit, std::size_t first = 0);

// Sums over images and positions: of inputs x, x x^T; of deltas d, d d^T; of both, d x^T, which is
// the gradient of the weights. Without `gradient`, only the first. Empty below layer `first`.
struct LayerSums {
  Eigen::MatrixXd inputs, deltas;
  RowMajorMatrix gradient;
  double positions = 1;  // of an image
};
[[nodiscard]] std::vector<LayerSums> layer_sums(const nn::Network& network, const ImageSet& set,
                                                std::span<const std::size_t> images,
                                                const LogitsGradient& gradient,
                                                std::size_t first = 0);

// Rows of probabilities; and probabilities minus 1 at the label: the gradient of cross-entropy.
[[nodiscard]] RowMajorMatrix softmax(const RowMajorMatrix& logits);
[[nodiscard]] RowMajorMatrix loss_gradient(const RowMajorMatrix& logits,
                                           std::span<const std::size_t> labels);
// That of the images' own labels.
[[nodiscard]] LogitsGradient loss_gradient(const ImageSet& set);

[[nodiscard]] RowMajorMatrix to_double(MatrixView<const float> values);

}  // namespace oubli
