#include "oubli/array/row_blocks.h"

#include <gtest/gtest.h>

#include <limits>

#include "oubli/base/random.h"

namespace oubli {
namespace {

TEST(RowBlocks, EveryRowOnceInOrderForEveryType) {
  Matrix<double> matrix(700, 300);  // more than one block
  RandomStream random(1, 0);
  for (double& value : matrix.flat()) value = random.normal();
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    Tensor stored{type, {700, 300}, std::vector<std::byte>(700 * 300 * size_of(type))};
    encode(type, matrix.flat(), stored.bytes);
    Matrix<double> expected(700, 300);
    decode(type, stored.bytes, expected.flat());
    std::vector<double> seen;
    std::size_t blocks = 0;
    for_each_row_block(stored.view("w"), [&](std::size_t first, MatrixView<const double> block) {
      EXPECT_EQ(first * 300, seen.size());
      seen.insert(seen.end(), block.flat().begin(), block.flat().end());
      ++blocks;
    });
    EXPECT_GT(blocks, 1u);
    EXPECT_TRUE(
        std::equal(seen.begin(), seen.end(), expected.flat().begin(), expected.flat().end()));
  }
}

TEST(RowBlocks, RefusesWhatIsNotAFiniteMatrix) {
  Matrix<float> matrix(900, 300);
  matrix(800, 7) = std::numeric_limits<float>::infinity();
  try {
    for_each_row_block(tensor_view(MatrixView<const float>(matrix), "w"), [](auto, auto) {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "w: inf at row 800, column 7; every value must be finite");
  }
  const Tensor integers{DType::i32, {1, 1}, std::vector<std::byte>(4)};
  EXPECT_THROW(for_each_row_block(integers.view("i"), [](auto, auto) {}), Error);
}

}  // namespace
}  // namespace oubli
