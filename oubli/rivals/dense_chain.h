#pragma once

// Networks of dense layers in double, layer by layer: what rivals need that look inside. For .cpp
// files only: our headers do not show Eigen.

#include <Eigen/Core>
#include <cstddef>
#include <span>
#include <vector>

#include "oubli/base/class_split.h"
#include "oubli/data/image_set.h"
#include "oubli/filtration/eigen.h"
#include "oubli/nn/network.h"

namespace oubli {

struct DenseLayer {
  RowMajorMatrix weights;  // units x (inputs + 1): the bias is the weight of a last input 1
  bool relu = false;
};
using DenseChain = std::vector<DenseLayer>;  // the head is the last

// Error{usage} unless all layers are dense ones, with biases and a relu each.
[[nodiscard]] DenseChain dense_chain(const nn::Network& network);
// `network` with these weights; the head may have another number of rows.
[[nodiscard]] nn::Network with_weights(const nn::Network& network, const DenseChain& chain);
// `chain` without the forgotten outputs.
[[nodiscard]] DenseChain without_outputs(DenseChain chain, const ClassSplit& split);

struct ChainPass {
  std::vector<RowMajorMatrix> inputs;  // of each layer: samples x (inputs + 1)
  RowMajorMatrix logits;
};
// `images`: samples x pixels.
[[nodiscard]] ChainPass forward(const DenseChain& chain, const RowMajorMatrix& images);
// Per layer, samples x units: each sample's gradient with respect to the layer's outputs before
// their relu. Times the inputs it is the gradient of the weights.
[[nodiscard]] std::vector<RowMajorMatrix> backward(const DenseChain& chain, const ChainPass& pass,
                                                   const RowMajorMatrix& dlogits);

// Images in [0, 1], samples x pixels; and their labels.
[[nodiscard]] RowMajorMatrix pixels(const ImageSet& set, std::span<const std::size_t> images);
[[nodiscard]] std::vector<std::size_t> labels_of(const ImageSet& set,
                                                 std::span<const std::size_t> images);

// Rows of probabilities; and probabilities minus 1 at the label: the gradient of cross-entropy.
[[nodiscard]] RowMajorMatrix softmax(const RowMajorMatrix& logits);
[[nodiscard]] RowMajorMatrix loss_gradient(const RowMajorMatrix& logits,
                                           std::span<const std::size_t> labels);
// Share of rows whose largest value is at the label.
[[nodiscard]] double accuracy_of(const RowMajorMatrix& logits, std::span<const std::size_t> labels);

}  // namespace oubli
