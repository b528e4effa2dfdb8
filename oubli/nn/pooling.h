#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "oubli/nn/graph.h"

namespace oubli::nn::kernels {

// Pooling of `batch` images in NHWC. Gradients are added to `input_gradient` if `accumulate`, else
// they replace it.

// Which element of its window each maximum is, for the backward pass.
struct Places {
  Places() = default;
  // For `count` maxima of a max_pool or global_max_pool.
  Places(const Op& op, std::size_t count);

  std::vector<std::uint8_t> corners;  // of windows of 2 x 2 side by side: 0 to 3, or kNowhere
  std::vector<std::int32_t> numbers;  // of others, row by row
};

// `places` may be null.
void max_pool(const Op& op, Shape in, Shape out, std::size_t batch, const float* input,
              float* output, Places* places);
// Sets every element of `input_gradient`, or adds to it if op.accumulate.
void max_pool_backward(const Op& op, Shape in, Shape out, std::size_t batch, const float* output,
                       const Places& places, const float* output_gradient, float* input_gradient);
void global_max_pool(Shape in, std::size_t batch, const float* input, float* output,
                     Places& places);
void global_max_pool_backward(Shape in, std::size_t batch, const Places& places,
                              const float* output_gradient, float* input_gradient, bool accumulate);
void global_average_pool(Shape in, std::size_t batch, const float* input, float* output);
void global_average_pool_backward(Shape in, std::size_t batch, const float* output_gradient,
                                  float* input_gradient, bool accumulate);

}  // namespace oubli::nn::kernels
