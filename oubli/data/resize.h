#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "oubli/data/samples.h"

namespace oubli {

// Resizes planes of height x width x channels: triangle filter, widened when shrinking, so that
// every source pixel counts (what PIL calls bilinear).
// Row by row, or as a whole.
void resize_rows(const Sample& sample, std::size_t height, std::size_t width,
                 const std::function<void(std::size_t y, std::span<const float> row)>& take);
[[nodiscard]] std::vector<float> resize_image(const Sample& sample, std::size_t height,
                                              std::size_t width);

}  // namespace oubli
