#include "oubli/nn/images.h"

#include <algorithm>

namespace oubli::nn {

namespace {

template <typename Value, typename Convert>
void interleave(Shape shape, const Value* image, float* target, const Convert& convert) {
  const std::size_t pixels = shape.pixels();
  float* __restrict to = target;  // bytes may alias anything: without this no vector code
  const Value* __restrict from = image;
  if (shape.channels == 1) {
    for (std::size_t p = 0; p < pixels; ++p) to[p] = convert(from[p]);
  } else if (shape.channels == 3) {
    for (std::size_t p = 0; p < pixels; ++p) {
      to[3 * p] = convert(from[p]);
      to[3 * p + 1] = convert(from[pixels + p]);
      to[3 * p + 2] = convert(from[2 * pixels + p]);
    }
  } else {
    for (std::size_t c = 0; c < shape.channels; ++c)
      for (std::size_t p = 0; p < pixels; ++p)
        to[p * shape.channels + c] = convert(from[c * pixels + p]);
  }
}

}  // namespace

void to_channels_last(Shape shape, std::span<const std::uint8_t> image, float* target) {
  constexpr float kScale = 1.0F / 255.0F;
  interleave(shape, image.data(), target,
             [](std::uint8_t value) { return static_cast<float>(value) * kScale; });
}

void to_channels_last(Shape shape, std::span<const float> image, float* target) {
  if (shape.pixels() == 1)
    std::ranges::copy(image, target);
  else
    interleave(shape, image.data(), target, [](float value) { return value; });
}

void to_channels_first(Shape shape, std::size_t count, const float* images, float* target) {
  if (shape.channels == 1 || shape.pixels() == 1) {
    std::copy_n(images, count * shape.size(), target);
    return;
  }
  for (std::size_t n = 0; n < count; ++n)
    for (std::size_t c = 0; c < shape.channels; ++c)
      for (std::size_t p = 0; p < shape.pixels(); ++p)
        target[n * shape.size() + c * shape.pixels() + p] =
            images[n * shape.size() + p * shape.channels + c];
}

}  // namespace oubli::nn
