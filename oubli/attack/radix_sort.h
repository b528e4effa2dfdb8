#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "oubli/base/workers.h"

namespace oubli {

// Unsigned integers in the order of finite floats; -0 counts as 0.
[[nodiscard]] inline std::uint32_t order_key(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value + 0.0F);
  return bits ^ ((bits >> 31) != 0 ? 0xFFFFFFFFU : 0x80000000U);
}
[[nodiscard]] inline float value_of_key(std::uint32_t key) {
  return std::bit_cast<float>(key ^ ((key >> 31) != 0 ? 0x80000000U : 0xFFFFFFFFU));
}

// Sorts ascending from `from`, which is overwritten, to `to`, of the same size. Least significant
// digit first, 11 bits at a time.
void radix_sort(std::span<std::uint32_t> from, std::span<std::uint32_t> to);

// Sorts every column of a table by keys as above. fill(column, first row, keys) writes keys of some
// rows; use(column, sorted, begin, end) has them all, to do what is to be done with the places
// [begin, end): all of them, or one half. Columns are shared out, and those that are left over by
// halves, so that a team of two is not kept waiting by an odd one. Memory is a few columns per
// worker.
void for_each_sorted_column(
    std::size_t columns, std::size_t rows, Team& team,
    const std::function<void(std::size_t column, std::size_t first, std::span<std::uint32_t> keys)>&
        fill,
    const std::function<void(std::size_t column, std::span<const std::uint32_t> sorted,
                             std::size_t begin, std::size_t end)>& use);

}  // namespace oubli
