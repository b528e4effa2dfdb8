#include "oubli/nn/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "oubli/base/error.h"

namespace oubli::nn::kernels {
namespace {

// Sums over rows of a rows x channels array run with one accumulator per channel; with few channels
// several rows are taken side by side, to keep enough sums in flight. How many, and the rest.
constexpr std::size_t kWide = 256;
std::size_t rows_side_by_side(std::size_t channels) {
  return std::max<std::size_t>(1, kWide / channels);
}

// sums[c] = sum over rows of term(row * channels + c, c)
template <typename Term>
void sum_rows(std::size_t rows, std::size_t channels, float* sums, const Term& term) {
  const std::size_t side = rows_side_by_side(channels);
  const std::size_t width = side * channels;
  std::vector<float> partial(width, 0.0F);
  float* __restrict p = partial.data();
  std::size_t row = 0;
  for (; row + side <= rows; row += side)
    for (std::size_t i = 0; i < width; ++i) p[i] += term(row * channels + i, i);
  for (std::size_t i = 0; row < rows; ++row, i += channels)
    for (std::size_t c = 0; c < channels; ++c) p[i + c] += term(row * channels + c, i + c);
  for (std::size_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (std::size_t s = 0; s < side; ++s) sum += static_cast<double>(p[s * channels + c]);
    sums[c] = static_cast<float>(sum);
  }
}

// Eight sums that stay in a register; of arrays of floats the compiler makes memory.
constexpr std::size_t kLanes = 8;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

template <std::size_t kVectors>
void sum_in_order(const float* values, std::size_t rows, std::size_t cols, float* result) {
  Lanes sums[kVectors] = {};
  for (std::size_t row = 0; row < rows; ++row, values += cols)
    for (std::size_t v = 0; v < kVectors; ++v) {
      Lanes value;
      std::memcpy(&value, values + v * kLanes, sizeof(value));
      sums[v] += value;
    }
  std::memcpy(result, sums, sizeof(sums));
}

// Per-channel constants repeated for the rows taken side by side.
std::vector<float> repeated(const float* values, std::size_t channels) {
  std::vector<float> wide(rows_side_by_side(channels) * channels);
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = values[i % channels];
  return wide;
}

// body(element, index into repeated constants) for all elements
template <typename Body>
void for_rows(std::size_t rows, std::size_t channels, const Body& body) {
  const std::size_t width = rows_side_by_side(channels) * channels;
  const std::size_t count = rows * channels;
  std::size_t base = 0;
  for (; base + width <= count; base += width)
    for (std::size_t i = 0; i < width; ++i) body(base + i, i);
  for (std::size_t i = 0; base + i < count; ++i) body(base + i, i);
}

}  // namespace

void transpose(const float* input, std::size_t rows, std::size_t cols, const float* bias, bool relu,
               float* output) {
  constexpr std::size_t kTile = 16;
  const float least = relu ? 0.0F : -std::numeric_limits<float>::infinity();
  for (std::size_t r0 = 0; r0 < rows; r0 += kTile)
    for (std::size_t c = 0; c < cols; ++c) {
      const std::size_t r1 = std::min(rows, r0 + kTile);
      for (std::size_t r = r0; r < r1; ++r) {
        const float value = input[r * cols + c] + (bias != nullptr ? bias[r] : 0.0F);
        output[c * rows + r] = value < least ? least : value;
      }
    }
}

void column_sums(const float* values, std::size_t rows, std::size_t cols, float* sums) {
  sum_rows(rows, cols, sums, [=](std::size_t i, std::size_t) { return values[i]; });
}

void sums_in_order(const float* values, std::size_t rows, std::size_t cols, float* sums) {
  std::size_t c = 0;
  for (; c + 4 * kLanes <= cols; c += 4 * kLanes) sum_in_order<4>(values + c, rows, cols, sums + c);
  for (; c + 2 * kLanes <= cols; c += 2 * kLanes) sum_in_order<2>(values + c, rows, cols, sums + c);
  for (; c < cols; ++c) {
    sums[c] = 0;
    for (std::size_t row = 0; row < rows; ++row) sums[c] += values[row * cols + c];
  }
}

void relu(std::span<const float> input, float* output) {
  for (std::size_t i = 0; i < input.size(); ++i) output[i] = input[i] > 0 ? input[i] : 0.0F;
}

void mask_relu(std::span<const float> output, float* gradient) {
  const float* __restrict y = output.data();
  float* __restrict g = gradient;
  for (std::size_t i = 0; i < output.size(); ++i) g[i] = y[i] > 0 ? g[i] : 0.0F;
}

void sigmoid(std::span<const float> input, float* output) {
  for (std::size_t i = 0; i < input.size(); ++i) output[i] = 1.0F / (1.0F + std::exp(-input[i]));
}

void sigmoid_backward(std::span<const float> output, const float* output_gradient,
                      float* input_gradient, bool accumulate) {
  for (std::size_t i = 0; i < output.size(); ++i) {
    const float g = output_gradient[i] * output[i] * (1.0F - output[i]);
    input_gradient[i] = accumulate ? input_gradient[i] + g : g;
  }
}

void add(std::span<const float> a, const float* b, bool relu, float* output) {
  const float* __restrict x = a.data();
  const float* __restrict y = b;
  float* __restrict z = output;
  if (relu) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const float sum = x[i] + y[i];
      z[i] = sum > 0 ? sum : 0.0F;
    }
  } else {
    for (std::size_t i = 0; i < a.size(); ++i) z[i] = x[i] + y[i];
  }
}

void deliver(std::span<const float> source, float* target, bool accumulate) {
  const float* __restrict x = source.data();
  float* __restrict y = target;
  if (accumulate)
    for (std::size_t i = 0; i < source.size(); ++i) y[i] += x[i];
  else
    std::copy_n(x, source.size(), y);
}

void scale_shift(const float* input, std::size_t rows, std::size_t channels, const float* scale,
                 const float* shift, bool relu, float* output) {
  const std::vector<float> scales = repeated(scale, channels);
  const std::vector<float> shifts = repeated(shift, channels);
  const float* __restrict x = input;
  const float* __restrict a = scales.data();
  const float* __restrict b = shifts.data();
  float* __restrict y = output;
  if (relu)
    for_rows(rows, channels, [=](std::size_t i, std::size_t c) {
      const float value = x[i] * a[c] + b[c];
      y[i] = value > 0 ? value : 0.0F;
    });
  else
    for_rows(rows, channels, [=](std::size_t i, std::size_t c) { y[i] = x[i] * a[c] + b[c]; });
}

void batch_norm(const BatchNorm& norm, const float* input, const float* scale, const float* shift,
                float* running_mean, float* running_variance, float* mean, float* inverse,
                float* output) {
  const std::size_t channels = norm.channels;
  const auto count = static_cast<float>(norm.rows);
  column_sums(input, norm.rows, channels, mean);
  for (std::size_t c = 0; c < channels; ++c) mean[c] /= count;
  const std::vector<float> means = repeated(mean, channels);
  const float* m = means.data();
  sum_rows(norm.rows, channels, inverse, [=](std::size_t i, std::size_t c) {
    const float d = input[i] - m[c];
    return d * d;
  });
  std::vector<float> a(channels);
  std::vector<float> b(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const float variance = inverse[c] / count;
    // the running variance is the unbiased one, as in TensorFlow's fused kernel
    const float unbiased = norm.rows > 1 ? inverse[c] / (count - 1) : variance;
    running_mean[c] += (1 - kBatchNormMomentum) * (mean[c] - running_mean[c]);
    running_variance[c] += (1 - kBatchNormMomentum) * (unbiased - running_variance[c]);
    inverse[c] = 1.0F / std::sqrt(variance + kBatchNormEpsilon);
    a[c] = scale[c] * inverse[c];
    b[c] = shift[c] - mean[c] * a[c];
  }
  scale_shift(input, norm.rows, channels, a.data(), b.data(), norm.relu, output);
}

void batch_norm_backward(const BatchNorm& norm, const float* input, const float* output,
                         const float* scale, const float* mean, const float* inverse,
                         float* output_gradient, float* scale_gradient, float* shift_gradient,
                         float* input_gradient, bool accumulate) {
  const std::size_t channels = norm.channels;
  const std::size_t count = norm.rows * channels;
  if (norm.relu && !norm.relu_masked) mask_relu({output, count}, output_gradient);
  const float* __restrict g = output_gradient;
  const float* __restrict x = input;
  column_sums(g, norm.rows, channels, shift_gradient);
  const std::vector<float> means = repeated(mean, channels);
  const float* m = means.data();
  sum_rows(norm.rows, channels, scale_gradient,
           [=](std::size_t i, std::size_t c) { return g[i] * (x[i] - m[c]); });
  // dx = a g + b x + d, from dx = scale * inverse * (g - mean(g) - xhat * mean(g xhat))
  std::vector<float> a(channels);
  std::vector<float> b(channels);
  std::vector<float> d(channels);
  const auto rows = static_cast<float>(norm.rows);
  for (std::size_t c = 0; c < channels; ++c) {
    scale_gradient[c] *= inverse[c];
    a[c] = scale[c] * inverse[c];
    b[c] = -a[c] * inverse[c] * scale_gradient[c] / rows;
    d[c] = -a[c] * shift_gradient[c] / rows - b[c] * mean[c];
  }
  const std::vector<float> wide_a = repeated(a.data(), channels);
  const std::vector<float> wide_b = repeated(b.data(), channels);
  const std::vector<float> wide_d = repeated(d.data(), channels);
  const float* __restrict pa = wide_a.data();
  const float* __restrict pb = wide_b.data();
  const float* __restrict pd = wide_d.data();
  float* __restrict dx = input_gradient;
  if (accumulate)
    for_rows(norm.rows, channels,
             [=](std::size_t i, std::size_t c) { dx[i] += pa[c] * g[i] + pb[c] * x[i] + pd[c]; });
  else
    for_rows(norm.rows, channels,
             [=](std::size_t i, std::size_t c) { dx[i] = pa[c] * g[i] + pb[c] * x[i] + pd[c]; });
}

double cross_entropy(std::span<const float> logits, std::size_t classes,
                     std::span<const std::uint32_t> labels, float* gradient) {
  const std::size_t rows = labels.size();
  const float share = 1.0F / static_cast<float>(rows);
  double loss = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const float* z = logits.data() + r * classes;
    float* g = gradient + r * classes;
    const float top = *std::max_element(z, z + classes);
    float sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += g[c] = std::exp(z[c] - top);
    for (std::size_t c = 0; c < classes; ++c) g[c] *= share / sum;
    const std::uint32_t label = labels[r];
    OUBLI_ASSERT(label < classes);
    g[label] -= share;
    loss += static_cast<double>(std::log(sum) - (z[label] - top));
  }
  return loss / static_cast<double>(rows);
}

}  // namespace oubli::nn::kernels
