#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "oubli/array/tensor.h"

namespace oubli {

// The label of a row that does not count. Files say so by -1, or by PyTorch's ignore_index, -100.
inline constexpr std::uint32_t kNoLabel = 0xFFFFFFFF;

// Labels of any shape, in their order: one for each row, which may be a position of a sample.
// Error{bad_input} if they are no integers in [0, classes), -1 or -100.
[[nodiscard]] std::vector<std::uint32_t> to_row_labels(const TensorView& tensor,
                                                       std::size_t classes);

[[nodiscard]] std::size_t count_unlabelled(const std::vector<std::uint32_t>& labels);

}  // namespace oubli
