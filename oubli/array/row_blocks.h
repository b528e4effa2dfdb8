#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/array/tensor.h"

namespace oubli {

// Large enough for matrix products to run at full speed, small enough to stay in the cache.
constexpr std::size_t kRowBlockElements = std::size_t{1} << 17;

// Visits a stored matrix (rank 2, any float type) from top to bottom in blocks of rows decoded to
// double, so that a head of gigabytes needs a buffer of a megabyte. Rows that are double already
// are not copied. Error{bad_input} names the first value that is not finite.
void for_each_row_block(
    const TensorView& matrix,
    const std::function<void(std::size_t first_row, MatrixView<const double> block)>& visit);
// The same in any order, several blocks of up to `block_elements` numbers at a time.
void for_each_row_block(
    const TensorView& matrix, unsigned workers,
    const std::function<void(std::size_t first_row, MatrixView<const double> block)>& visit,
    std::size_t block_elements = kRowBlockElements);

// A matrix of double that can be read where it is; nothing for others.
[[nodiscard]] std::optional<MatrixView<const double>> as_double_matrix(const TensorView& tensor);

// One row of a matrix as floats: in place where that is possible, else decoded to `buffer`.
[[nodiscard]] std::span<const float> float_row(const TensorView& matrix, std::size_t row,
                                               std::vector<float>& buffer);
// sum of a_i b_i in double, in a fixed order that compilers turn into vector code.
[[nodiscard]] double dot(std::span<const double> a, std::span<const float> b);

// Some rows, ascending or not, decoded to double. Error{bad_input} if they are not finite.
[[nodiscard]] Matrix<double> pick_rows(const TensorView& matrix, std::span<const std::size_t> rows);

}  // namespace oubli
