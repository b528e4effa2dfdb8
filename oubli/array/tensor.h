#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oubli/array/dtype.h"
#include "oubli/array/matrix.h"
#include "oubli/base/file.h"

namespace oubli {

// The number of elements of `shape`; Error{bad_input} naming `what` if it overflows.
[[nodiscard]] std::size_t element_count(std::span<const std::size_t> shape,
                                        const std::string& what);

// An array of any type and shape whose bytes somebody else owns (a mapped file, a Tensor).
// Row-major, little-endian, not necessarily aligned. `what` says where it is from, for messages
// ("head.npz:W").
struct TensorView {
  DType dtype = DType::f32;
  std::vector<std::size_t> shape;
  std::span<const std::byte> bytes;
  std::string what;

  [[nodiscard]] std::size_t count() const { return bytes.size() / size_of(dtype); }
  [[nodiscard]] std::size_t rank() const { return shape.size(); }
};

// "float32 [10, 784]"
[[nodiscard]] std::string describe(const TensorView& tensor);

// An array that owns its bytes.
struct Tensor {
  DType dtype = DType::f32;
  std::vector<std::size_t> shape;
  std::vector<std::byte> bytes;

  [[nodiscard]] TensorView view(std::string what) const {
    return {dtype, shape, bytes, std::move(what)};
  }
};

// A view together with whatever keeps its bytes alive: a mapped file (no copy), or a buffer where
// the file holds them compressed or in another order, or a temporary file for what is compressed
// and large. Copies share the bytes.
struct SharedTensor : TensorView {
  std::shared_ptr<const void> owner = {};
  std::shared_ptr<const MappedFile> file = {};  // that it was read from
  bool mapped = false;  // the bytes are those of a file, `file` or a temporary one

  // What was read of it so far no longer counts as memory in use, unless it is in a buffer.
  void release() const;
};
[[nodiscard]] SharedTensor share(Tensor tensor, std::string what);

// A tensor's view of a float or double matrix, and a copy of it.
template <typename T>
[[nodiscard]] TensorView tensor_view(MatrixView<const T> matrix, std::string what);
template <typename T>
[[nodiscard]] Tensor to_tensor(MatrixView<const T> matrix);
[[nodiscard]] Tensor to_tensor(std::span<const double> vector, DType dtype);

// The tensor itself as a matrix, without a copy, if it is float32, of rank 2 and aligned.
[[nodiscard]] std::optional<MatrixView<const float>> as_float_matrix(const TensorView& tensor);
// A copy in float32, whatever float or integer type it is stored in.
[[nodiscard]] Matrix<float> to_float_matrix(const TensorView& tensor);

// Conversions to what the mathematics takes. Error{bad_input}, naming the tensor, if the rank is
// not 2 (1), or the type not a number. require_finite also refuses NaN and infinities and names the
// first one's position.
[[nodiscard]] Matrix<double> to_matrix(const TensorView& tensor);
[[nodiscard]] std::vector<double> to_vector(const TensorView& tensor);
// first_row is added to the row reported, for values that are a block of something larger.
void require_finite(MatrixView<const double> values, const std::string& what,
                    std::size_t first_row = 0);
void require_finite(MatrixView<const float> values, const std::string& what,
                    std::size_t first_row = 0);

}  // namespace oubli
