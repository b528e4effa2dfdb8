#include "oubli/attack/adaboost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "oubli/attack/test_points.h"

namespace oubli {
namespace {

using testing::coarse_points;
using testing::Points;
using testing::two_gaussians;

// The algorithm as it is written down: every round tries every threshold of every feature.
std::vector<double> brute_force(const Points& train, MatrixView<const float> test,
                                std::size_t rounds, bool real) {
  const std::size_t n = train.x.rows();
  std::vector<double> weights(n, 1.0 / static_cast<double>(n)), decision(test.rows());
  for (std::size_t round = 0; round < rounds; ++round) {
    double best_impurity = 1e300, best_threshold = 0;
    std::size_t best_feature = 0;
    for (std::size_t f = 0; f < train.x.cols(); ++f) {
      std::vector<float> values;
      for (std::size_t i = 0; i < n; ++i) values.push_back(train.x(i, f));
      std::ranges::sort(values);
      for (std::size_t i = 1; i < n; ++i) {
        if (values[i] == values[i - 1]) continue;
        const double threshold =
            (static_cast<double>(values[i - 1]) + static_cast<double>(values[i])) / 2;
        double w[2][2] = {};
        for (std::size_t j = 0; j < n; ++j)
          w[static_cast<double>(train.x(j, f)) <= threshold ? 0 : 1][train.y[j]] += weights[j];
        double impurity = 0;
        for (const auto& side : w) impurity += 2 * side[0] * side[1] / (side[0] + side[1]);
        if (impurity < best_impurity - 1e-13) {
          best_impurity = impurity;
          best_threshold = threshold;
          best_feature = f;
        }
      }
    }
    double w[2][2] = {};
    const auto side_of = [&](float value) {
      return static_cast<double>(value) <= best_threshold ? 0 : 1;
    };
    for (std::size_t j = 0; j < n; ++j)
      w[side_of(train.x(j, best_feature))][train.y[j]] += weights[j];
    double error = 0, vote[2];
    for (int side = 0; side < 2; ++side) error += std::min(w[side][0], w[side][1]);
    for (int side = 0; side < 2; ++side) {
      // A pure leaf's vote would be infinite: shares are at least 2^-52, as in scikit-learn.
      const double total = w[side][0] + w[side][1];
      vote[side] = real ? std::log(std::max(w[side][1] / total, 0x1p-52)) -
                              std::log(std::max(w[side][0] / total, 0x1p-52))
                        : std::log((1 - error) / error) * (w[side][1] > w[side][0] ? 1 : -1);
    }
    double sum = 0;
    for (std::size_t j = 0; j < n; ++j) {
      const double v = vote[side_of(train.x(j, best_feature))];
      if (real)
        weights[j] *= std::exp(train.y[j] != 0 ? -v / 2 : v / 2);
      else
        weights[j] *= (v > 0) == (train.y[j] != 0) ? 1 : (1 - error) / error;
      sum += weights[j];
    }
    for (double& weight : weights) weight /= sum;
    for (std::size_t j = 0; j < test.rows(); ++j)
      decision[j] += vote[side_of(test(j, best_feature))];
  }
  return decision;
}

AdaBoost fit(const Points& train, AdaBoostOptions options) {
  RandomStream random(0, 0);
  return AdaBoost::fit(train.x, train.y, options, random);
}

void expect_equal_to_brute_force(const Points& train, const Points& test, AdaBoostOptions options) {
  const std::vector<double> ours = fit(train, options).score(test.x);
  const std::vector<double> expected = brute_force(
      train, test.x, options.stumps, options.algorithm == AdaBoostOptions::Algorithm::samme_r);
  // Sums of some 1e3 weights, 20 rounds: rounding of about 1e-12.
  for (std::size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], expected[i], 1e-9) << i;
}

TEST(AdaBoost, EqualsTheDefinition) {
  const Points train = two_gaussians(401, 4, 1.5, 1), test = two_gaussians(200, 4, 1.5, 2);
  expect_equal_to_brute_force(train, test, {.stumps = 20});
  expect_equal_to_brute_force(train, test,
                              {.stumps = 20, .algorithm = AdaBoostOptions::Algorithm::samme});
}

TEST(AdaBoost, EqualsTheDefinitionOnTiedValues) {
  Points train = coarse_points(600, 3, 6, 3);
  for (std::size_t i = 0; i < train.x.rows(); ++i)  // labels that depend on the values
    if (train.x(i, 1) > 3) train.y[i] = 1;
  expect_equal_to_brute_force(train, coarse_points(100, 3, 6, 4), {.stumps = 6});
}

TEST(AdaBoost, EqualsTheDefinitionWhereNearlyAllValuesAreClose) {
  // Every fourth point, from which the chunks of the search are found, lies elsewhere: the others
  // are all in one chunk.
  constexpr std::size_t kPoints = 4096;
  Points train{Matrix<float>(kPoints, 1), std::vector<std::uint8_t>(kPoints)};
  RandomStream random(9, 9);
  for (std::size_t i = 0; i < kPoints; ++i) {
    train.y[i] = i < kPoints / 2 ? 0 : 1;
    const double close = 1000 * (random.uniform() + 0.3 * train.y[i]);
    const double far = i % 8 == 0 ? 1e4 : -1e4;
    train.x(i, 0) = static_cast<float>(i % 4 == 0 ? far + close : close);
  }
  const Points test{train.x, train.y};
  expect_equal_to_brute_force(train, test, {.stumps = 3});
}

TEST(AdaBoost, SameAnswersOnAnyNumberOfWorkers) {
  const Points train = two_gaussians(5000, 7, 1, 5), test = two_gaussians(9000, 7, 1, 6);
  EXPECT_EQ(fit(train, {.workers = 1}).score(test.x), fit(train, {.workers = 3}).score(test.x));
}

TEST(AdaBoost, OneLabelIsAConstantAnswer) {
  Points train = two_gaussians(50, 2, 1, 7);
  for (const auto label : {std::uint8_t{0}, std::uint8_t{1}}) {
    std::ranges::fill(train.y, label);
    EXPECT_EQ(fit(train, {}).predict(train.x), train.y);
  }
}

TEST(AdaBoost, ConstantFeaturesAnswerTheMajority) {
  const Points train{Matrix<float>(5, 2), {1, 0, 1, 1, 0}};
  EXPECT_EQ(fit(train, {}).predict(train.x), std::vector<std::uint8_t>(5, 1));
}

TEST(AdaBoost, SeparableDataIsLearntByOneStump) {
  Points train = two_gaussians(100, 2, 1, 8);
  for (std::size_t i = 0; i < 100; ++i) train.x(i, 1) += train.y[i] != 0 ? 50.0F : -50.0F;
  const AdaBoost model = fit(train, {});
  EXPECT_EQ(model.stumps(), 1U);
  EXPECT_EQ(model.predict(train.x), train.y);
}

TEST(AdaBoost, NeighbouringFloatsAreParted) {
  // The midpoint of two neighbouring floats rounds to one of them: it must still part them.
  Points train{Matrix<float>(4, 1), {0, 0, 1, 1}};
  train.x(0, 0) = train.x(1, 0) = 1e10F;
  train.x(2, 0) = train.x(3, 0) = std::nextafter(1e10F, 2e10F);
  EXPECT_EQ(fit(train, {}).predict(train.x), train.y);
}

}  // namespace
}  // namespace oubli
