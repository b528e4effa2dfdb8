#include "oubli/array/labels.h"

#include <gtest/gtest.h>

#include <span>

#include "oubli/base/error.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

Tensor labels_of(const std::vector<std::int64_t>& values, std::vector<std::size_t> shape) {
  const auto bytes = std::as_bytes(std::span(values));
  return {DType::i64, std::move(shape), {bytes.begin(), bytes.end()}};
}

TEST(Labels, AreIntegersInRange) {
  const Tensor labels = labels_of({0, 2, 1}, {3});
  EXPECT_EQ(to_labels(labels.view("y"), 3), (std::vector<std::uint32_t>{0, 2, 1}));
  const auto refusal = [](const Tensor& tensor) {
    const Error error = testing::error_of([&] { (void)to_labels(tensor.view("y"), 2); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return std::string(error.what());
  };
  EXPECT_EQ(refusal(labels), "y: label 2 at position 1, wanted 0 to 1");
  EXPECT_THAT(refusal(labels_of({-1}, {1})), ::testing::HasSubstr("-1"));
  EXPECT_THAT(refusal(to_tensor(std::vector<double>{0}, DType::f32)),
              ::testing::HasSubstr("float32"));
}

TEST(RowLabels, OfAnyShapeAndSomeDoNotCount) {
  const Tensor labels = labels_of({0, -1, 2, -100, 1, 1}, {2, 3});
  const std::vector<std::uint32_t> rows = to_row_labels(labels.view("y"), 3);
  EXPECT_EQ(rows, (std::vector<std::uint32_t>{0, kNoLabel, 2, kNoLabel, 1, 1}));
  EXPECT_EQ(count_unlabelled(rows), 2U);
}

TEST(RowLabels, OthersAreRefused) {
  const Tensor one = labels_of({0, -100}, {2});
  EXPECT_EQ(count_unlabelled(to_row_labels(one.view("y"), 3)), 1U);
  for (const std::int64_t wrong : {3, -1, -2, -99}) {
    const Tensor labels = labels_of({0, wrong}, {2});
    EXPECT_THROW((void)to_row_labels(labels.view("y"), 3), Error) << wrong;
  }
  const Tensor floats = to_tensor(std::vector<double>{0, 1}, DType::f32);
  EXPECT_THROW((void)to_row_labels(floats.view("y"), 3), Error);
}

}  // namespace
}  // namespace oubli
