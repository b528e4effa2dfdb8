#include "oubli/nn/pooling.h"

#include <algorithm>
#include <bit>

#include "oubli/nn/kernels.h"

namespace oubli::nn::kernels {
namespace {

// Windows of 2 x 2 without overlap are the common case and have code of their own: a byte per
// maximum, and a backward pass that writes every gradient once and decides nothing by jumping,
// which would be guessed wrong half of the time.
bool windows_of_2x2(const Op& op) {
  return op.kind == OpKind::max_pool && op.kernel == 2 && op.stride == 2 && !op.accumulate;
}

// The corner of a maximum that passes no gradient, because the relu before the pooling does not.
constexpr std::uint32_t kNowhere = 4;

// Loops of this many channels become vector code as they are, loops of any number in a form so
// careful that it costs three times as much.
constexpr std::size_t kLanes = 16;

template <typename Body>
void for_lanes(std::size_t channels, const Body& body) {
  std::size_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) body(c, kLanes);
  if (c < channels) body(c, channels - c);
}

// The corners of the windows of one row of outputs.
template <typename Value>
struct Corners {
  Value* upper;
  Value* lower;
  std::size_t channels;
  // Of output x, from channel c on.
  [[nodiscard]] Value* at(std::size_t x, std::size_t c, std::size_t corner) const {
    return (corner < 2 ? upper : lower) + (2 * x + corner % 2) * channels + c;
  }
};

// body(corners, first element of the outputs) for every row of outputs
template <typename Value, typename Body>
void for_output_rows(Shape in, Shape out, std::size_t batch, Value* images, const Body& body) {
  const std::size_t row = in.width * in.channels;
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t y = 0; y < out.height; ++y) {
      Value* upper = images + (n * in.height + 2 * y) * row;
      body(Corners<Value>{upper, upper + row, in.channels},
           (n * out.height + y) * out.width * in.channels);
    }
}

enum class Keep { nothing, corner, corner_of_positive };

template <Keep kKeep>
void best_of_four(const float* __restrict v0, const float* __restrict v1,
                  const float* __restrict v2, const float* __restrict v3, std::size_t count,
                  float* __restrict best, std::uint8_t* __restrict corner) {
  for (std::size_t c = 0; c < count; ++c) {
    float value = v0[c];
    std::uint32_t number = 0;
    number = v1[c] > value ? 1 : number;
    value = v1[c] > value ? v1[c] : value;
    number = v2[c] > value ? 2 : number;
    value = v2[c] > value ? v2[c] : value;
    number = v3[c] > value ? 3 : number;
    value = v3[c] > value ? v3[c] : value;
    best[c] = value;
    if constexpr (kKeep == Keep::corner_of_positive) number = value > 0 ? number : kNowhere;
    if constexpr (kKeep != Keep::nothing) corner[c] = static_cast<std::uint8_t>(number);
  }
}

template <Keep kKeep>
void max_pool_2x2(Shape in, Shape out, std::size_t batch, const float* input, float* output,
                  std::uint8_t* places) {
  for_output_rows(in, out, batch, input, [=](const Corners<const float>& from, std::size_t first) {
    for (std::size_t x = 0; x < out.width; ++x)
      for_lanes(in.channels, [&](std::size_t c, std::size_t count) {
        const std::size_t at = first + x * in.channels + c;
        best_of_four<kKeep>(from.at(x, c, 0), from.at(x, c, 1), from.at(x, c, 2), from.at(x, c, 3),
                            count, output + at, kKeep == Keep::nothing ? nullptr : places + at);
      });
  });
}

void spread_to_four(const float* __restrict gradient, const std::uint8_t* __restrict corner,
                    std::size_t count, float* __restrict v0, float* __restrict v1,
                    float* __restrict v2, float* __restrict v3) {
  const auto kept = [](bool keep, std::uint32_t bits) {
    return std::bit_cast<float>(bits & -std::uint32_t{keep});
  };
  for (std::size_t c = 0; c < count; ++c) {
    const auto bits = std::bit_cast<std::uint32_t>(gradient[c]);
    const std::uint32_t number = corner[c];
    v0[c] = kept(number == 0, bits);
    v1[c] = kept(number == 1, bits);
    v2[c] = kept(number == 2, bits);
    v3[c] = kept(number == 3, bits);
  }
}

void max_pool_2x2_backward(Shape in, Shape out, std::size_t batch, const std::uint8_t* places,
                           const float* output_gradient, float* input_gradient) {
  const std::size_t channels = in.channels;
  const std::size_t covered = 2 * out.width * channels;
  const std::size_t beside = in.width * channels - covered;
  for_output_rows(in, out, batch, input_gradient, [=](const Corners<float>& to, std::size_t first) {
    for (std::size_t x = 0; x < out.width; ++x)
      for_lanes(channels, [&](std::size_t c, std::size_t count) {
        const std::size_t at = first + x * channels + c;
        spread_to_four(output_gradient + at, places + at, count, to.at(x, c, 0), to.at(x, c, 1),
                       to.at(x, c, 2), to.at(x, c, 3));
      });
    std::fill_n(to.upper + covered, beside, 0.0F);
    std::fill_n(to.lower + covered, beside, 0.0F);
  });
  const std::size_t below = (in.height - 2 * out.height) * in.width * channels;
  for (std::size_t n = 0; n < batch; ++n)
    std::fill_n(input_gradient + (n + 1) * in.size() - below, below, 0.0F);
}

}  // namespace

Places::Places(const Op& op, std::size_t count)
    : corners(windows_of_2x2(op) ? count : 0), numbers(windows_of_2x2(op) ? 0 : count) {}

void max_pool(const Op& op, Shape in, Shape out, std::size_t batch, const float* input,
              float* output, Places* places) {
  if (windows_of_2x2(op)) {
    if (places == nullptr)
      return max_pool_2x2<Keep::nothing>(in, out, batch, input, output, nullptr);
    return op.mask_input
               ? max_pool_2x2<Keep::corner_of_positive>(in, out, batch, input, output,
                                                        places->corners.data())
               : max_pool_2x2<Keep::corner>(in, out, batch, input, output, places->corners.data());
  }
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
        std::int32_t* __restrict place =
            places == nullptr ? unused.data() : places->numbers.data() + at;
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
                       const Places& places, const float* output_gradient, float* input_gradient) {
  if (windows_of_2x2(op))
    return max_pool_2x2_backward(in, out, batch, places.corners.data(), output_gradient,
                                 input_gradient);
  const std::size_t channels = in.channels;
  const std::size_t k = op.kernel;
  // Windows side by side cover the image but for what is left over at the bottom and right.
  const bool apart = op.kernel == op.stride && !op.accumulate;
  if (!op.accumulate && (!apart || out.height * k != in.height || out.width * k != in.width))
    std::fill_n(input_gradient, batch * in.size(), 0.0F);
  std::vector<float> masked(channels);
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t y = 0; y < out.height; ++y)
      for (std::size_t x = 0; x < out.width; ++x) {
        float* window = input_gradient +
                        ((n * in.height + y * op.stride) * in.width + x * op.stride) * channels;
        const std::size_t at = ((n * out.height + y) * out.width + x) * channels;
        const std::int32_t* __restrict place = places.numbers.data() + at;
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
                     Places& places) {
  const std::size_t channels = in.channels;
  for (std::size_t n = 0; n < batch; ++n) {
    const float* image = input + n * in.size();
    float* __restrict best = output + n * channels;
    std::int32_t* __restrict place = places.numbers.data() + n * channels;
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

void global_max_pool_backward(Shape in, std::size_t batch, const Places& places,
                              const float* output_gradient, float* input_gradient,
                              bool accumulate) {
  if (!accumulate) std::fill_n(input_gradient, batch * in.size(), 0.0F);
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t c = 0; c < in.channels; ++c) {
      const std::size_t i = n * in.channels + c;
      input_gradient[n * in.size() + static_cast<std::size_t>(places.numbers[i]) * in.channels +
                     c] += output_gradient[i];
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

}  // namespace oubli::nn::kernels
