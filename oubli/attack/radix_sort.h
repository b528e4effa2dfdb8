#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace oubli {

// Sorts finite floats ascending; -0 counts as 0. Least significant digit first, 11 bits at a time.
// `scratch` grows as needed and may be reused.
void radix_sort(std::span<float> values, std::vector<std::uint64_t>& scratch);

// The stable ascending order of `count` values, the i-th at values[i * stride]; at most 2^32 - 1.
[[nodiscard]] std::vector<std::uint32_t> radix_order(const float* values, std::size_t count,
                                                     std::size_t stride,
                                                     std::vector<std::uint64_t>& scratch);

}  // namespace oubli
