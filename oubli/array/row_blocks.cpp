#include "oubli/array/row_blocks.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "oubli/base/workers.h"

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
  for_each_row_block(matrix, 1, visit);
}

void for_each_row_block(
    const TensorView& matrix, unsigned workers,
    const std::function<void(std::size_t first_row, MatrixView<const double> block)>& visit) {
  if (matrix.rank() != 2 || !is_float(matrix.dtype))
    fail(ErrorCode::bad_input, "{}: {}, wanted a matrix of floating-point numbers", matrix.what,
         describe(matrix));
  const std::size_t rows = matrix.shape[0], cols = matrix.shape[1];
  const std::size_t row_bytes = cols * size_of(matrix.dtype);
  const std::size_t block_rows =
      std::max<std::size_t>(1, kBlockElements / std::max<std::size_t>(1, cols));
  const bool in_place = readable_in_place(matrix);
  const std::size_t blocks = (rows + block_rows - 1) / block_rows;
  const std::size_t buffers = std::min<std::size_t>(std::max(1U, workers), blocks);
  std::vector<Matrix<double>> buffer_of(
      buffers, Matrix<double>(in_place ? 0 : std::min(rows, block_rows), cols));
  run_tasks(blocks, workers, [&](std::size_t index, unsigned worker) {
    const std::size_t first = index * block_rows;
    Matrix<double>& buffer = buffer_of[worker];
    const std::size_t count = std::min(block_rows, rows - first);
    const auto bytes = matrix.bytes.subspan(first * row_bytes, count * row_bytes);
    MatrixView<const double> block(reinterpret_cast<const double*>(bytes.data()), count, cols);
    if (!in_place) {
      decode(matrix.dtype, bytes, buffer.flat().first(count * cols));
      block = {buffer.data(), count, cols};
    }
    require_finite(block, matrix.what, first);
    visit(first, block);
  });
}

}  // namespace oubli
