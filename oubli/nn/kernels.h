#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "oubli/nn/graph.h"

namespace oubli::nn::kernels {

// The small layers, on `batch` images in NHWC. Innermost loops run over channels, which the
// compiler turns into vector code without reordering any sum. Gradients are added to
// `input_gradient` if `accumulate`, else they replace it.

// output (cols x rows) = transpose of input (rows x cols), plus bias[row] (may be null), then relu.
void transpose(const float* input, std::size_t rows, std::size_t cols, const float* bias, bool relu,
               float* output);
// sums[c] = sum over rows of values(row, c)
void column_sums(const float* values, std::size_t rows, std::size_t cols, float* sums);
// The same, every sum from the first row to the last, as in oneDNN's gradient of a bias.
void sums_in_order(const float* values, std::size_t rows, std::size_t cols, float* sums);

void relu(std::span<const float> input, float* output);
// gradient[i] = 0 where output[i] is not positive
void mask_relu(std::span<const float> output, float* gradient);
void sigmoid(std::span<const float> input, float* output);
void sigmoid_backward(std::span<const float> output, const float* output_gradient,
                      float* input_gradient, bool accumulate);
void add(std::span<const float> a, const float* b, bool relu, float* output);
// target (+)= source
void deliver(std::span<const float> source, float* target, bool accumulate);

// output = relu?(input * scale + shift) per channel
void scale_shift(const float* input, std::size_t rows, std::size_t channels, const float* scale,
                 const float* shift, bool relu, float* output);

// Batch normalisation in training. Rows are batch * pixels. `mean` and `inverse` (1 / sqrt(variance
// + epsilon), variance without Bessel's correction) are of this batch.
struct BatchNorm {
  std::size_t rows = 0;
  std::size_t channels = 0;
  bool relu = false;
  bool relu_masked = false;
};
void batch_norm(const BatchNorm& norm, const float* input, const float* scale, const float* shift,
                float* running_mean, float* running_variance, float* mean, float* inverse,
                float* output);
// output_gradient is overwritten by its masked form.
void batch_norm_backward(const BatchNorm& norm, const float* input, const float* output,
                         const float* scale, const float* mean, const float* inverse,
                         float* output_gradient, float* scale_gradient, float* shift_gradient,
                         float* input_gradient, bool accumulate);

// Mean cross-entropy of softmax(logits); gradient = d(mean loss)/d(logits).
[[nodiscard]] double cross_entropy(std::span<const float> logits, std::size_t classes,
                                   std::span<const std::uint32_t> labels, float* gradient);

}  // namespace oubli::nn::kernels
