#include "oubli/model/quantised_head.h"

#include <gtest/gtest.h>

#include <cmath>

#include "oubli/base/error.h"
#include "oubli/base/random.h"

namespace oubli {
namespace {

NewHead random_head(std::size_t rows, std::size_t columns, std::size_t classes,
                    std::uint64_t seed) {
  RandomStream random(seed, task_id("quantised head test"));
  std::vector<double> weights(rows * columns), bias(classes);
  for (double& value : weights) value = random.normal() * std::exp(3 * random.normal());
  for (double& value : bias) value = random.normal();
  NewHead head{to_tensor(weights, DType::f32), to_tensor(bias, DType::f32), false};
  head.weights.shape = {rows, columns};
  return head;
}

void expect_same(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.bytes, b.bytes);
}

// Each number is off by half a step at most, the largest of a class takes the whole range, and what
// the numbers stand for gives the same numbers again: a verifier has nothing else.
TEST(QuantisedHead, RoundsToTheNearestAndComesAgain) {
  for (const bool transposed : {false, true})
    for (const bool per_class : {false, true})
      for (const auto bias :
           {HeadGrid::Bias::floats, HeadGrid::Bias::products, HeadGrid::Bias::own_scale})
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
          const NewHead head = transposed ? random_head(9, 5, 5, seed) : random_head(5, 9, 5, seed);
          const HeadGrid grid{.levels = seed % 2 == 0 ? 127 : 64,
                              .scale_per_class = per_class,
                              .bias = bias,
                              .bias_factor = 0.037,
                              .old_step = 1};
          const QuantisedHead found = quantise(head, transposed, grid, "test");
          const Matrix<double> exact = to_matrix(head.weights.view(""));
          const Matrix<double> made = to_matrix(found.stands_for.weights.view(""));
          std::vector<std::int32_t> most(5);
          for (std::size_t i = 0; i < exact.rows(); ++i)
            for (std::size_t j = 0; j < exact.cols(); ++j) {
              const std::size_t c = transposed ? j : i;
              const std::int32_t q = found.weights[i * exact.cols() + j];
              EXPECT_LE(std::abs(exact(i, j) - made(i, j)),
                        0.5 * static_cast<double>(found.scales[c]) * (1 + 1e-12));
              EXPECT_EQ(made(i, j), static_cast<double>(found.scales[c]) * q);
              most[c] = std::max(most[c], std::abs(q));
            }
          EXPECT_EQ(std::ranges::max(most), grid.levels);
          if (per_class) {
            EXPECT_EQ(std::ranges::min(most), grid.levels);
          }
          const std::vector<double> wanted = to_vector(head.bias->view(""));
          const std::vector<double> stored = to_vector(found.stands_for.bias->view(""));
          for (std::size_t c = 0; c < 5; ++c)
            EXPECT_LE(std::abs(wanted[c] - stored[c]),
                      found.bias.empty() ? 0 : 0.5 * found.bias_scales[c] * (1 + 1e-6));
          const QuantisedHead again = quantise(found.stands_for, transposed, grid, "test");
          EXPECT_EQ(again.weights, found.weights);
          EXPECT_EQ(again.scales, found.scales);
          EXPECT_EQ(again.bias, found.bias);
          EXPECT_EQ(again.bias_scales, found.bias_scales);
          expect_same(again.stands_for.weights, found.stands_for.weights);
          expect_same(*again.stands_for.bias, *found.stands_for.bias);
        }
}

TEST(QuantisedHead, ZerosAndBiasesOffTheGrid) {
  NewHead head{to_tensor(std::vector<double>{0, 0, 1, -2}, DType::f32),
               to_tensor(std::vector<double>{0, 1e7}, DType::f32), false};
  head.weights.shape = {2, 2};
  const QuantisedHead found =
      quantise(head, false, {.bias = HeadGrid::Bias::floats, .old_step = 1}, "test");
  EXPECT_EQ(found.weights, (std::vector<std::int32_t>{0, 0, 63, -127}));
  EXPECT_EQ(found.scales[0], found.scales[1]);
  EXPECT_THROW(
      (void)quantise(head, false,
                     {.bias = HeadGrid::Bias::products, .bias_factor = 1, .old_step = 1}, "test"),
      Error);
}

TEST(QuantisedHead, KnowsRowsThatStay) {
  const NewHead old = random_head(4, 3, 4, 1);
  const HeadView view{old.weights.view("w"), false, 1, old.bias->view("b"), 1};
  NewHead cut{{DType::f32, {2, 3}, {}}, Tensor{DType::f32, {2}, {}}, false};
  const std::vector<std::size_t> retained{1, 3};
  for (const std::size_t j : retained) {
    const auto weights = std::span(old.weights.bytes).subspan(j * 12, 12);
    const auto bias = std::span(old.bias->bytes).subspan(j * 4, 4);
    cut.weights.bytes.insert(cut.weights.bytes.end(), weights.begin(), weights.end());
    cut.bias->bytes.insert(cut.bias->bytes.end(), bias.begin(), bias.end());
  }
  EXPECT_TRUE(keeps_rows(view, cut, retained));
  EXPECT_FALSE(keeps_rows(view, cut, std::vector<std::size_t>{0, 3}));
  cut.bias->bytes[5] ^= std::byte{1};
  EXPECT_FALSE(keeps_rows(view, cut, retained));
  cut.bias.reset();
  EXPECT_FALSE(keeps_rows(view, cut, retained));
  // Features x classes.
  const HeadView columns{{DType::f32, {3, 4}, old.weights.bytes, "w"}, true};
  NewHead narrow{{DType::f32, {3, 1}, {}}, std::nullopt, false};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto one = std::span(old.weights.bytes).subspan((i * 4 + 2) * 4, 4);
    narrow.weights.bytes.insert(narrow.weights.bytes.end(), one.begin(), one.end());
  }
  EXPECT_TRUE(keeps_rows(columns, narrow, std::vector<std::size_t>{2}));
  EXPECT_FALSE(keeps_rows(columns, narrow, std::vector<std::size_t>{1}));
}

}  // namespace
}  // namespace oubli
