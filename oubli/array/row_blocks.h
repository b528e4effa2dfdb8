#pragma once

#include <cstddef>
#include <functional>

#include "oubli/array/matrix.h"
#include "oubli/array/tensor.h"

namespace oubli {

// Visits a stored matrix (rank 2, any float type) from top to bottom in blocks of rows decoded to
// double, so that a head of gigabytes needs a buffer of a megabyte. Rows that are double already
// are not copied. Error{bad_input} names the first value that is not finite.
void for_each_row_block(
    const TensorView& matrix,
    const std::function<void(std::size_t first_row, MatrixView<const double> block)>& visit);
// The same blocks in any order, several at a time.
void for_each_row_block(
    const TensorView& matrix, unsigned workers,
    const std::function<void(std::size_t first_row, MatrixView<const double> block)>& visit);

}  // namespace oubli
