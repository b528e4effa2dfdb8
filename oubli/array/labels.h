#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "oubli/array/tensor.h"

namespace oubli {

// Class labels: an integer tensor of rank 1 (or n x 1) with values in [0, classes).
// Error{bad_input}, naming the tensor, if it is none.
[[nodiscard]] std::vector<std::uint32_t> to_labels(const TensorView& tensor, std::size_t classes);

// The label of a row that does not count. Files say so by PyTorch's ignore_index, -100, and, of
// positions, by -1. (In a plain list -1 is more likely a class that was not found.)
inline constexpr std::uint32_t kNoLabel = 0xFFFFFFFF;

// Labels of any shape, in their order: one for each row, which may be a position of a sample.
// Error{bad_input} if they are no integers in [0, classes) and do not say so.
[[nodiscard]] std::vector<std::uint32_t> to_row_labels(const TensorView& tensor,
                                                       std::size_t classes);

[[nodiscard]] std::size_t count_unlabelled(const std::vector<std::uint32_t>& labels);

}  // namespace oubli
