#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <stop_token>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/data/image_set.h"
#include "oubli/nn/executor.h"
#include "oubli/nn/network.h"
#include "oubli/nn/optimizer.h"

namespace oubli {

// Training that goes on from a network's weights, by any loss, with stops to look at it in between.
class Descent {
 public:
  // Writes the gradient of a batch's mean loss with respect to its logits. `images`: which images
  // of the set the rows are of.
  using Loss = std::function<void(std::span<const std::size_t> images,
                                  std::span<const float> logits, std::span<float> gradient)>;

  // `set` must outlive it.
  Descent(const nn::Network& start, const ImageSet& set, std::size_t batch,
          const nn::Optimizer& optimizer);

  // A step for each batch of `images`, in order. Error{unfilterable} if weights are not finite
  // afterwards.
  void run(std::span<const std::size_t> images, const Loss& loss, const std::stop_token& stop);
  [[nodiscard]] nn::Network network() const;

 private:
  nn::Executor& executor_for(std::size_t size);

  nn::NetworkSpec spec_;
  const ImageSet& set_;
  std::size_t batch_;
  nn::Graph graph_;
  std::map<std::size_t, nn::Executor> executors_;  // by batch size
  nn::ParameterStore store_;
  nn::Updater updater_;
};

// Cross-entropy with these labels (one per image of the set); sign -1 climbs.
[[nodiscard]] Descent::Loss label_loss(std::span<const std::uint32_t> labels, std::size_t classes,
                                       float sign = 1);
// Cross-entropy with rows of probabilities; `row_of` finds the row of an image.
[[nodiscard]] Descent::Loss soft_loss(MatrixView<const float> targets,
                                      const std::map<std::size_t, std::size_t>& row_of);

// Rows of logits to probabilities, in place.
void softmax(MatrixView<float> logits);

}  // namespace oubli
