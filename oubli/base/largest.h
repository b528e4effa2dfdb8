#pragma once

#include <algorithm>
#include <cstddef>

namespace oubli {

// The place of the largest number, the first of several: what a model answers.
template <typename Row>
[[nodiscard]] std::size_t place_of_largest(const Row& row) {
  return static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
}

}  // namespace oubli
