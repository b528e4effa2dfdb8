#include "oubli/array/matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace oubli {
namespace {

// Small ones and those in huge pages, which memory that was used before must not show in.
TEST(Matrix, BeginsAlignedAndZero) {
  for (const std::size_t count : {1U, 7U, 1000U, 1U << 20U, (1U << 20U) + 1, 3U << 20U}) {
    for (int again = 0; again < 3; ++again) {
      Matrix<float> matrix(1, count);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(matrix.data()) % kMatrixAlignment, 0U);
      EXPECT_EQ(std::ranges::count(matrix.flat(), 0.0F), static_cast<std::ptrdiff_t>(count));
      std::ranges::fill(matrix.flat(), 1.0F);
    }
  }
}

TEST(Matrix, ForOverwriteHoldsWhatIsWritten) {
  auto matrix = Matrix<double>::for_overwrite(700, 1001);
  ASSERT_EQ(matrix.rows(), 700U);
  ASSERT_EQ(matrix.cols(), 1001U);
  ASSERT_EQ(matrix.flat().size(), 700U * 1001U);
  std::ranges::fill(matrix.flat(), 2.0);
  const Matrix<double> copy = matrix;
  EXPECT_EQ(copy, matrix);
  EXPECT_EQ(copy(699, 1000), 2.0);
}

TEST(Matrix, TooLargeIsBadAlloc) {
  EXPECT_THROW(Matrix<double>(std::size_t{1} << 40U, 1U << 22U), std::exception);
}

}  // namespace
}  // namespace oubli
