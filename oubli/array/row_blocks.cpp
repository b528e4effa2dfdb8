#include "oubli/array/row_blocks.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "oubli/base/workers.h"

namespace oubli {
namespace {

// As a matrix of ours would be: wherever it stands in a file, sums over it are the same.
bool is_aligned(std::span<const std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % kMatrixAlignment == 0;
}

}  // namespace

void for_each_row_block(
    const TensorView& matrix,
    const std::function<void(std::size_t first_row, MatrixView<const double> block)>& visit) {
  for_each_row_block(matrix, 1, visit);
}

void for_each_row_block(
    const TensorView& matrix, unsigned workers,
    const std::function<void(std::size_t first_row, MatrixView<const double> block)>& visit,
    std::size_t block_elements) {
  if (matrix.rank() != 2 || !is_float(matrix.dtype))
    fail(ErrorCode::bad_input, "{}: {}, wanted a matrix of floating-point numbers", matrix.what,
         describe(matrix));
  const std::size_t rows = matrix.shape[0], cols = matrix.shape[1];
  const std::size_t row_bytes = cols * size_of(matrix.dtype);
  const std::size_t block_rows =
      std::max<std::size_t>(1, block_elements / std::max<std::size_t>(1, cols));
  const std::size_t blocks = (rows + block_rows - 1) / block_rows;
  const std::size_t buffers = std::min<std::size_t>(std::max(1U, workers), blocks);
  std::vector<Matrix<double>> buffer_of(buffers, Matrix<double>(std::min(rows, block_rows), cols));
  run_tasks(blocks, workers, [&](std::size_t index, unsigned worker) {
    const std::size_t first = index * block_rows;
    Matrix<double>& buffer = buffer_of[worker];
    const std::size_t count = std::min(block_rows, rows - first);
    const auto bytes = matrix.bytes.subspan(first * row_bytes, count * row_bytes);
    MatrixView<const double> block(reinterpret_cast<const double*>(bytes.data()), count, cols);
    if (matrix.dtype != DType::f64 || !is_aligned(bytes)) {
      decode(matrix.dtype, bytes, buffer.flat().first(count * cols));
      block = {buffer.data(), count, cols};
    }
    require_finite(block, matrix.what, first);
    visit(first, block);
  });
}

std::optional<MatrixView<const double>> as_double_matrix(const TensorView& tensor) {
  if (tensor.dtype != DType::f64 || tensor.rank() != 2 || !is_aligned(tensor.bytes))
    return std::nullopt;
  return MatrixView<const double>(reinterpret_cast<const double*>(tensor.bytes.data()),
                                  tensor.shape[0], tensor.shape[1]);
}

std::span<const float> float_row(const TensorView& matrix, std::size_t row,
                                 std::vector<float>& buffer) {
  OUBLI_ASSERT(matrix.rank() == 2 && row < matrix.shape[0]);
  const std::size_t cols = matrix.shape[1], row_bytes = cols * size_of(matrix.dtype);
  const std::span<const std::byte> bytes = matrix.bytes.subspan(row * row_bytes, row_bytes);
  if (matrix.dtype == DType::f32 &&
      reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(float) == 0)
    return {reinterpret_cast<const float*>(bytes.data()), cols};
  buffer.resize(cols);
  decode(matrix.dtype, bytes, std::span(buffer));
  return buffer;
}

double dot(std::span<const double> a, std::span<const float> b) {
  OUBLI_ASSERT(a.size() == b.size());
  constexpr std::size_t kLanes = 16;  // sums of their own, for vector code
  std::array<double, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      sums[lane] += a[i + lane] * static_cast<double>(b[i + lane]);
  for (; i < a.size(); ++i) sums[0] += a[i] * static_cast<double>(b[i]);
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

Matrix<double> pick_rows(const TensorView& matrix, std::span<const std::size_t> rows) {
  OUBLI_ASSERT(matrix.rank() == 2);
  const std::size_t row_bytes = matrix.shape[1] * size_of(matrix.dtype);
  auto picked = Matrix<double>::for_overwrite(rows.size(), matrix.shape[1]);
  for (std::size_t n = 0; n < rows.size(); ++n) {
    OUBLI_ASSERT(rows[n] < matrix.shape[0]);
    decode(matrix.dtype, matrix.bytes.subspan(rows[n] * row_bytes, row_bytes), picked.row(n));
    require_finite(picked.view().middle_rows(n, 1), matrix.what, rows[n]);
  }
  return picked;
}

}  // namespace oubli
