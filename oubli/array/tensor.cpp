#include "oubli/array/tensor.h"

#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "oubli/base/file_chunks.h"

namespace oubli {

void SharedTensor::release() const {
  if (mapped) release_pages(bytes);
}

SharedTensor share(Tensor tensor, std::string what) {
  auto owner = std::make_shared<const Tensor>(std::move(tensor));
  return {owner->view(std::move(what)), owner, nullptr, false};
}

namespace {

template <typename T>
constexpr DType kFloatType = std::is_same_v<T, float> ? DType::f32 : DType::f64;

template <typename T>
void require_finite_in(MatrixView<const T> values, const std::string& what, std::size_t first_row) {
  // All bits of the exponent are set for infinities and NaN; as integers, the loop vectorises.
  using Bits = std::conditional_t<std::is_same_v<T, float>, std::uint32_t, std::uint64_t>;
  constexpr Bits kExponent = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  Bits found = 0;
  for (const T value : values.flat())
    found |= static_cast<Bits>((std::bit_cast<Bits>(value) & kExponent) == kExponent);
  if (found == 0) return;
  for (std::size_t row = 0; row < values.rows(); ++row)
    for (std::size_t col = 0; col < values.cols(); ++col)
      if (!std::isfinite(values(row, col)))
        fail(ErrorCode::bad_input, "{}: {} at row {}, column {}; every value must be finite", what,
             values(row, col), first_row + row, col);
}

void require_rank(const TensorView& tensor, std::size_t rank) {
  if (tensor.rank() != rank)
    fail(ErrorCode::bad_input, "{}: {}, wanted a {} (rank {})", tensor.what, describe(tensor),
         rank == 1 ? "vector" : "matrix", rank);
}

}  // namespace

std::size_t element_count(std::span<const std::size_t> shape, const std::string& what) {
  std::size_t count = 1;
  for (const std::size_t extent : shape)
    if (__builtin_mul_overflow(count, extent, &count))
      fail(ErrorCode::bad_input, "{}: shape [{}] has more elements than can be addressed", what,
           fmt::join(shape, ", "));
  return count;
}

std::string describe(const TensorView& tensor) {
  return fmt::format("{} [{}]", name_of(tensor.dtype), fmt::join(tensor.shape, ", "));
}

template <typename T>
TensorView tensor_view(MatrixView<const T> matrix, std::string what) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  return {
      kFloatType<T>, {matrix.rows(), matrix.cols()}, std::as_bytes(matrix.flat()), std::move(what)};
}
template TensorView tensor_view(MatrixView<const float>, std::string);
template TensorView tensor_view(MatrixView<const double>, std::string);

template <typename T>
Tensor to_tensor(MatrixView<const T> matrix) {
  const TensorView view = tensor_view(matrix, {});
  return {view.dtype, view.shape, {view.bytes.begin(), view.bytes.end()}};
}
template Tensor to_tensor(MatrixView<const float>);
template Tensor to_tensor(MatrixView<const double>);

Tensor to_tensor(std::span<const double> vector, DType dtype) {
  Tensor tensor{dtype, {vector.size()}, std::vector<std::byte>(vector.size() * size_of(dtype))};
  encode(dtype, vector, tensor.bytes);
  return tensor;
}

std::optional<MatrixView<const float>> as_float_matrix(const TensorView& tensor) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.bytes.data());
  if (tensor.dtype != DType::f32 || tensor.rank() != 2 || address % alignof(float) != 0)
    return std::nullopt;
  return MatrixView<const float>(reinterpret_cast<const float*>(tensor.bytes.data()),
                                 tensor.shape[0], tensor.shape[1]);
}

Matrix<float> to_float_matrix(const TensorView& tensor) {
  require_rank(tensor, 2);
  auto matrix = Matrix<float>::for_overwrite(tensor.shape[0], tensor.shape[1]);
  decode(tensor.dtype, tensor.bytes, matrix.flat());
  return matrix;
}

Matrix<double> to_matrix(const TensorView& tensor) {
  require_rank(tensor, 2);
  auto matrix = Matrix<double>::for_overwrite(tensor.shape[0], tensor.shape[1]);
  decode(tensor.dtype, tensor.bytes, matrix.flat());
  return matrix;
}

std::vector<double> to_vector(const TensorView& tensor) {
  require_rank(tensor, 1);
  std::vector<double> vector(tensor.shape[0]);
  decode(tensor.dtype, tensor.bytes, vector);
  return vector;
}

void require_finite(MatrixView<const double> values, const std::string& what,
                    std::size_t first_row) {
  require_finite_in(values, what, first_row);
}
void require_finite(MatrixView<const float> values, const std::string& what,
                    std::size_t first_row) {
  require_finite_in(values, what, first_row);
}

}  // namespace oubli
