#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace oubli {

// Where the rows of a tensor are, one for each answer of a model: sample by sample, and the
// positions of a sample in the order of their axes.
struct RowPlaces {
  std::vector<std::size_t> starts;     // of each row: the number of its first element
  std::size_t stride = 1;              // from one entry of a row to the next
  std::vector<std::size_t> positions;  // extents of the axes that count them, single ones left out
};

// `entries`: the axis along which the entries of a row are; nothing: a row is one number.
// `samples`: the axis that counts samples; nothing: all axes count positions.
[[nodiscard]] RowPlaces rows_in(std::span<const std::size_t> shape,
                                std::optional<std::size_t> entries,
                                std::optional<std::size_t> samples);

}  // namespace oubli
