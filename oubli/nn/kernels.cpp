#include "oubli/nn/kernels.h"

#include <algorithm>
#include <cmath>
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

// Windows of 2 x 2 without overlap, the common case: one pass over the channels per window.
template <bool kPlaces>
void max_pool_2x2(Shape in, Shape out, std::size_t batch, const float* input, float* output,
                  std::int32_t* places) {
  const std::size_t channels = in.channels;
  const std::size_t row = in.width * channels;
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t y = 0; y < out.height; ++y) {
      const float* window = input + (n * in.height + 2 * y) * row;
      const std::size_t at = (n * out.height + y) * out.width * channels;
      float* __restrict best = output + at;
      std::int32_t* __restrict place = kPlaces ? places + at : nullptr;
      for (std::size_t x = 0; x < out.width; ++x, window += 2 * channels) {
        const float* __restrict v0 = window;
        const float* __restrict v1 = window + channels;
        const float* __restrict v2 = window + row;
        const float* __restrict v3 = window + row + channels;
        for (std::size_t c = 0; c < channels; ++c) {
          float value = v0[c];
          std::int32_t number = 0;
          number = v1[c] > value ? 1 : number;
          value = v1[c] > value ? v1[c] : value;
          number = v2[c] > value ? 2 : number;
          value = v2[c] > value ? v2[c] : value;
          number = v3[c] > value ? 3 : number;
          value = v3[c] > value ? v3[c] : value;
          best[c] = value;
          if constexpr (kPlaces) place[c] = number;
        }
        best += channels;
        if constexpr (kPlaces) place += channels;
      }
    }
}

// Every element of the windows is set; what lies outside them is the caller's.
template <bool kMask>
void max_pool_2x2_backward(Shape in, Shape out, std::size_t batch, const float* output,
                           const std::int32_t* places, const float* output_gradient,
                           float* input_gradient) {
  const std::size_t channels = in.channels;
  const std::size_t row = in.width * channels;
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t y = 0; y < out.height; ++y) {
      float* window = input_gradient + (n * in.height + 2 * y) * row;
      std::size_t at = (n * out.height + y) * out.width * channels;
      for (std::size_t x = 0; x < out.width; ++x, window += 2 * channels, at += channels) {
        const float* __restrict top = output + at;
        const float* __restrict g = output_gradient + at;
        const std::int32_t* __restrict place = places + at;
        float* __restrict v0 = window;
        float* __restrict v1 = window + channels;
        float* __restrict v2 = window + row;
        float* __restrict v3 = window + row + channels;
        for (std::size_t c = 0; c < channels; ++c) {
          const float value = kMask && !(top[c] > 0) ? 0.0F : g[c];
          v0[c] = place[c] == 0 ? value : 0.0F;
          v1[c] = place[c] == 1 ? value : 0.0F;
          v2[c] = place[c] == 2 ? value : 0.0F;
          v3[c] = place[c] == 3 ? value : 0.0F;
        }
      }
    }
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

void max_pool(const Op& op, Shape in, Shape out, std::size_t batch, const float* input,
              float* output, std::int32_t* places) {
  if (op.kernel == 2 && op.stride == 2)
    return places == nullptr ? max_pool_2x2<false>(in, out, batch, input, output, nullptr)
                             : max_pool_2x2<true>(in, out, batch, input, output, places);
  const std::size_t channels = in.channels;
  const std::size_t k = op.kernel;
  std::vector<std::int32_t> unused(places == nullptr ? channels : 0);
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t y = 0; y < out.height; ++y)
      for (std::size_t x = 0; x < out.width; ++x) {
        const float* window =
            input + ((n * in.height + y * op.stride) * in.width + x * op.stride) * channels;
        const std::size_t at = ((n * out.height + y) * out.width + x) * channels;
        float* __restrict best = output + at;
        std::int32_t* __restrict place = places == nullptr ? unused.data() : places + at;
        std::copy_n(window, channels, best);
        std::fill_n(place, channels, 0);
        for (std::size_t j = 1; j < k * k; ++j) {
          const float* __restrict v = window + (j / k * in.width + j % k) * channels;
          const auto number = static_cast<std::int32_t>(j);
          for (std::size_t c = 0; c < channels; ++c) {
            const bool larger = v[c] > best[c];
            best[c] = larger ? v[c] : best[c];
            place[c] = larger ? number : place[c];
          }
        }
      }
}

void max_pool_backward(const Op& op, Shape in, Shape out, std::size_t batch, const float* output,
                       const std::int32_t* places, const float* output_gradient,
                       float* input_gradient) {
  const std::size_t channels = in.channels;
  const std::size_t k = op.kernel;
  // Windows side by side cover the image but for what is left over at the bottom and right.
  const bool apart = op.kernel == op.stride && !op.accumulate;
  if (!op.accumulate && (!apart || out.height * k != in.height || out.width * k != in.width))
    std::fill_n(input_gradient, batch * in.size(), 0.0F);
  if (apart && k == 2)
    return op.mask_input ? max_pool_2x2_backward<true>(in, out, batch, output, places,
                                                       output_gradient, input_gradient)
                         : max_pool_2x2_backward<false>(in, out, batch, output, places,
                                                        output_gradient, input_gradient);
  std::vector<float> masked(channels);
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t y = 0; y < out.height; ++y)
      for (std::size_t x = 0; x < out.width; ++x) {
        float* window = input_gradient +
                        ((n * in.height + y * op.stride) * in.width + x * op.stride) * channels;
        const std::size_t at = ((n * out.height + y) * out.width + x) * channels;
        const std::int32_t* __restrict place = places + at;
        const float* __restrict g = output_gradient + at;
        if (op.mask_input) {
          const float* __restrict top = output + at;
          float* __restrict m = masked.data();
          for (std::size_t c = 0; c < channels; ++c) m[c] = top[c] > 0 ? g[c] : 0.0F;
          g = masked.data();
        }
        for (std::size_t j = 0; j < k * k; ++j) {
          float* __restrict v = window + (j / k * in.width + j % k) * channels;
          const auto number = static_cast<std::int32_t>(j);
          if (apart)
            for (std::size_t c = 0; c < channels; ++c) v[c] = place[c] == number ? g[c] : 0.0F;
          else
            for (std::size_t c = 0; c < channels; ++c) v[c] += place[c] == number ? g[c] : 0.0F;
        }
      }
}

void global_max_pool(Shape in, std::size_t batch, const float* input, float* output,
                     std::int32_t* places) {
  const std::size_t channels = in.channels;
  for (std::size_t n = 0; n < batch; ++n) {
    const float* image = input + n * in.size();
    float* __restrict best = output + n * channels;
    std::int32_t* __restrict place = places + n * channels;
    std::copy_n(image, channels, best);
    std::fill_n(place, channels, 0);
    for (std::size_t p = 1; p < in.pixels(); ++p) {
      const float* __restrict v = image + p * channels;
      const auto number = static_cast<std::int32_t>(p);
      for (std::size_t c = 0; c < channels; ++c) {
        const bool larger = v[c] > best[c];
        best[c] = larger ? v[c] : best[c];
        place[c] = larger ? number : place[c];
      }
    }
  }
}

void global_max_pool_backward(Shape in, std::size_t batch, const std::int32_t* places,
                              const float* output_gradient, float* input_gradient,
                              bool accumulate) {
  if (!accumulate) std::fill_n(input_gradient, batch * in.size(), 0.0F);
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t c = 0; c < in.channels; ++c) {
      const std::size_t i = n * in.channels + c;
      input_gradient[n * in.size() + static_cast<std::size_t>(places[i]) * in.channels + c] +=
          output_gradient[i];
    }
}

void global_average_pool(Shape in, std::size_t batch, const float* input, float* output) {
  const float share = 1.0F / static_cast<float>(in.pixels());
  for (std::size_t n = 0; n < batch; ++n) {
    column_sums(input + n * in.size(), in.pixels(), in.channels, output + n * in.channels);
    for (std::size_t c = 0; c < in.channels; ++c) output[n * in.channels + c] *= share;
  }
}

void global_average_pool_backward(Shape in, std::size_t batch, const float* output_gradient,
                                  float* input_gradient, bool accumulate) {
  const float share = 1.0F / static_cast<float>(in.pixels());
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t p = 0; p < in.pixels(); ++p)
      for (std::size_t c = 0; c < in.channels; ++c) {
        float& target = input_gradient[n * in.size() + p * in.channels + c];
        const float g = output_gradient[n * in.channels + c] * share;
        target = accumulate ? target + g : g;
      }
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
