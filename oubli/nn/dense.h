#pragma once

#include <cstddef>

#include "oubli/nn/buffer.h"

namespace oubli::nn {

// The forward pass of a dense layer whose weights stay as they are. sgemm packs both factors anew
// in every call, which with few outputs costs more than it saves; here the weights are packed once
// and images are read where they are. An image's outputs do not depend on the others in its batch,
// to the bit.
class PackedDense {
 public:
  // Whether it can be used here (AVX-512) and is faster than sgemm for this layer: a fixed rule, so
  // that results do not depend on what else the machine does
  // (docs/internals/training.md has the times).
  [[nodiscard]] static bool suits(std::size_t inputs, std::size_t units);

  // weight: units x inputs
  PackedDense(const float* weight, std::size_t inputs, std::size_t units);

  // output (images x units) = relu?(images weight^T + bias); bias may be null.
  void forward(const float* images, std::size_t count, const float* bias, bool relu,
               float* output) const;

 private:
  std::size_t inputs_;
  std::size_t units_;
  std::size_t columns_;  // outputs that are computed side by side, in vectors; the rest one by one
  // Groups of vectors, inputs x width of the group each; then rows of weights for the rest.
  Buffer packed_;
};

}  // namespace oubli::nn
