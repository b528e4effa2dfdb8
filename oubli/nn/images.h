#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "oubli/nn/graph.h"

namespace oubli::nn {

// One image from channels first, bytes or floats, to floats with channels last; bytes are divided
// by 255.
void to_channels_last(Shape shape, std::span<const std::uint8_t> image, float* target);
void to_channels_last(Shape shape, std::span<const float> image, float* target);
// `count` images back.
void to_channels_first(Shape shape, std::size_t count, const float* images, float* target);

}  // namespace oubli::nn
