#include "oubli/runtime/rows.h"

namespace oubli {

RowPlaces rows_in(std::span<const std::size_t> shape, std::optional<std::size_t> entries,
                  std::optional<std::size_t> samples) {
  std::vector<std::size_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * shape[axis];
  RowPlaces rows;
  rows.starts = {0};
  const auto along = [&](std::size_t axis) {
    std::vector<std::size_t> starts;
    starts.reserve(rows.starts.size() * shape[axis]);
    for (const std::size_t start : rows.starts)
      for (std::size_t i = 0; i < shape[axis]; ++i) starts.push_back(start + i * strides[axis]);
    rows.starts = std::move(starts);
  };
  if (entries) rows.stride = strides[*entries];
  if (samples) along(*samples);
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis == entries || axis == samples || shape[axis] == 1) continue;
    rows.positions.push_back(shape[axis]);
    along(axis);
  }
  return rows;
}

}  // namespace oubli
