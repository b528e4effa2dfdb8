#include "oubli/nn/images.h"

#include <algorithm>

namespace oubli {

void to_channels_last(Shape shape, std::span<const std::uint8_t> image, float* target) {
  constexpr float kScale = 1.0F / 255.0F;
  const std::size_t pixels = shape.pixels();
  float* __restrict to = target;  // bytes may alias anything: without this no vector code
  const std::uint8_t* __restrict from = image.data();
  if (shape.channels == 1) {
    for (std::size_t p = 0; p < pixels; ++p) to[p] = static_cast<float>(from[p]) * kScale;
  } else if (shape.channels == 3) {
    for (std::size_t p = 0; p < pixels; ++p) {
      to[3 * p] = static_cast<float>(from[p]) * kScale;
      to[3 * p + 1] = static_cast<float>(from[pixels + p]) * kScale;
      to[3 * p + 2] = static_cast<float>(from[2 * pixels + p]) * kScale;
    }
  } else {
    for (std::size_t c = 0; c < shape.channels; ++c)
      for (std::size_t p = 0; p < pixels; ++p)
        to[p * shape.channels + c] = static_cast<float>(from[c * pixels + p]) * kScale;
  }
}

void to_channels_last(Shape shape, std::span<const float> image, float* target) {
  if (shape.channels == 1 || shape.pixels() == 1) {
    std::ranges::copy(image, target);
    return;
  }
  for (std::size_t c = 0; c < shape.channels; ++c)
    for (std::size_t p = 0; p < shape.pixels(); ++p)
      target[p * shape.channels + c] = image[c * shape.pixels() + p];
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

}  // namespace oubli
