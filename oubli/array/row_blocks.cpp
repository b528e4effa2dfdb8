#include "oubli/array/row_blocks.h"

#include <algorithm>
#include <cstdint>

namespace oubli {
namespace {

// Large enough for matrix products to run at full speed, small enough to stay in the cache.
constexpr std::size_t kBlockElements = std::size_t{1} << 17;

bool readable_in_place(const TensorView& matrix) {
  return matrix.dtype == DType::f64 &&
         reinterpret_cast<std::uintptr_t>(matrix.bytes.data()) % alignof(double) == 0;
}

}  // namespace

void for_each_row_block(
    const TensorView& matrix,
    const std::function<void(std::size_t first_row, MatrixView<const double> block)>& visit) {
  if (matrix.rank() != 2 || !is_float(matrix.dtype))
    fail(ErrorCode::bad_input, "{}: {}, wanted a matrix of floating-point numbers", matrix.what,
         describe(matrix));
  const std::size_t rows = matrix.shape[0], cols = matrix.shape[1];
  const std::size_t row_bytes = cols * size_of(matrix.dtype);
  const std::size_t block_rows =
      std::max<std::size_t>(1, kBlockElements / std::max<std::size_t>(1, cols));
  const bool in_place = readable_in_place(matrix);
  Matrix<double> buffer(in_place ? 0 : std::min(rows, block_rows), cols);
  for (std::size_t first = 0; first < rows; first += block_rows) {
    const std::size_t count = std::min(block_rows, rows - first);
    const auto bytes = matrix.bytes.subspan(first * row_bytes, count * row_bytes);
    MatrixView<const double> block(reinterpret_cast<const double*>(bytes.data()), count, cols);
    if (!in_place) {
      decode(matrix.dtype, bytes, buffer.flat().first(count * cols));
      block = {buffer.data(), count, cols};
    }
    require_finite(block, matrix.what, first);
    visit(first, block);
  }
}

}  // namespace oubli
