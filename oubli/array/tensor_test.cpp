#include "oubli/array/tensor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace oubli {
namespace {

template <typename T>
Tensor vector_of(DType type, std::vector<T> values) {
  const auto bytes = std::as_bytes(std::span<const T>(values));
  return {type, {values.size()}, {bytes.begin(), bytes.end()}};
}

template <typename Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(Tensor, MatrixRoundTrip) {
  const Matrix<double> matrix(2, 3, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(to_matrix(to_tensor(matrix.view()).view("m")), matrix);
}

TEST(Tensor, ElementCountRefusesOverflow) {
  const std::vector<std::size_t> shape{std::size_t{1} << 33, std::size_t{1} << 33};
  EXPECT_NE(message_of([&] { (void)element_count(shape, "w.npy"); }).find("w.npy"),
            std::string::npos);
}

TEST(Tensor, RequireFiniteSaysWhere) {
  Matrix<double> matrix(2, 2);
  require_finite(matrix.view(), "x");
  matrix(1, 0) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(message_of([&] { require_finite(MatrixView<const double>(matrix), "x.npy"); }),
            "x.npy: nan at row 1, column 0; every value must be finite");
}

}  // namespace
}  // namespace oubli
