#include "oubli/attack/logistic_regression.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "oubli/attack/test_points.h"

namespace oubli {
namespace {

using testing::coarse_points;
using testing::Points;
using testing::two_gaussians;

LogisticRegression fit(const Points& train, LogisticRegressionOptions options = {}) {
  RandomStream random(0, 0);
  return LogisticRegression::fit(train.x, train.y, options, random);
}

// At the minimum the gradient of |w|^2 / 2 + C sum of losses is zero: C sum (p - y) x = -w.
// With more features than points, too, where fewer numbers are looked for.
TEST(LogisticRegression, GradientIsZero) {
  for (const auto& [points, features] : {std::pair<std::size_t, std::size_t>(2000, 6), {40, 120}}) {
    for (const double c : {0.01, 1.0, 100.0}) {
      const Points train = two_gaussians(points, features, 1, 1);
      const LogisticRegression model = fit(train, {.inverse_penalty = c});
      const std::vector<double> z = model.score(train.x);
      std::vector<double> gradient(features + 1);
      for (std::size_t i = 0; i < points; ++i) {
        const double residual = 1 / (1 + std::exp(-z[i])) - train.y[i];
        for (std::size_t f = 0; f < features; ++f)
          gradient[f] += c * residual * static_cast<double>(train.x(i, f));
        gradient[features] += c * residual;
      }
      for (std::size_t f = 0; f < features; ++f)
        EXPECT_NEAR(gradient[f] + model.weights()[f], 0, 2000 * c * 1e-8) << features;
      EXPECT_NEAR(gradient[features], 0, 2000 * c * 1e-8) << features;
    }
  }
}

TEST(LogisticRegression, SeparableDataStaysFinite) {
  Points train = two_gaussians(200, 3, 40, 2);
  const LogisticRegression model = fit(train);
  for (const double weight : model.weights()) EXPECT_TRUE(std::isfinite(weight));
  EXPECT_EQ(model.predict(train.x), train.y);
}

TEST(LogisticRegression, DependentFeaturesShareTheWeight) {
  Points train = two_gaussians(500, 1, 1, 3);
  Points twice{Matrix<float>(500, 2), train.y};
  for (std::size_t i = 0; i < 500; ++i) twice.x(i, 0) = twice.x(i, 1) = train.x(i, 0);
  const LogisticRegression model = fit(twice);
  EXPECT_NEAR(model.weights()[0], model.weights()[1], 1e-6);
}

TEST(LogisticRegression, DegenerateData) {
  Points train = coarse_points(40, 2, 5, 10);
  for (const auto label : {std::uint8_t{0}, std::uint8_t{1}}) {
    std::ranges::fill(train.y, label);
    EXPECT_EQ(fit(train).predict(train.x), train.y);
  }
  const Points constant{Matrix<float>(5, 2), {1, 0, 1, 1, 0}};
  EXPECT_EQ(fit(constant).predict(constant.x), std::vector<std::uint8_t>(5, 1));
}

}  // namespace
}  // namespace oubli
