#include "oubli/audit/kolmogorov_smirnov.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "oubli/base/error.h"
#include "oubli/base/random.h"

namespace oubli {
namespace {

// The definition: both distribution functions at every point.
double brute_force(std::span<const float> first, std::span<const float> second) {
  double largest = 0;
  for (const auto* points : {&first, &second}) {
    for (const float at : *points) {
      const auto share = [&](std::span<const float> sample) {
        return static_cast<double>(
                   std::ranges::count_if(sample, [&](float v) { return v <= at; })) /
               static_cast<double>(sample.size());
      };
      largest = std::max(largest, std::abs(share(first) - share(second)));
    }
  }
  return largest;
}

std::vector<float> sample(std::size_t count, double shift, std::uint64_t seed) {
  RandomStream random(seed, 1);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.normal() + shift);
  return values;
}

TEST(KolmogorovSmirnov, EqualsTheDefinition) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const auto a = sample(100 + 37 * seed, 0, seed), b = sample(900 - 13 * seed, 0.1, seed + 100);
    // Only the last division rounds.
    EXPECT_NEAR(kolmogorov_smirnov(a, b), brute_force(a, b), 1e-14);
  }
}

TEST(KolmogorovSmirnov, CountsTiesTogether) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto a = sample(300, 0, seed), b = sample(200, 0.3, seed + 100);
    for (float& value : a) value = std::round(value * 3);
    for (float& value : b) value = std::round(value * 3);
    EXPECT_NEAR(kolmogorov_smirnov(a, b), brute_force(a, b), 1e-14);
  }
}

TEST(KolmogorovSmirnov, UnevenData) {
  // One far point squeezes all others into one bin of the histogram; so does an infinite range.
  for (const float far : {1e6F, 3e38F}) {
    auto a = sample(500, 0, 1), b = sample(400, 0.2, 2);
    a.push_back(far);
    b.push_back(-far);
    EXPECT_NEAR(kolmogorov_smirnov(a, b), brute_force(a, b), 1e-14);
  }
}

TEST(KolmogorovSmirnov, SpecialCases) {
  const std::vector<float> zeros(7, 0.0F), ones(3, 1.0F);
  EXPECT_EQ(kolmogorov_smirnov(zeros, zeros), 0);
  EXPECT_EQ(kolmogorov_smirnov(zeros, ones), 1);
  EXPECT_EQ(kolmogorov_smirnov(ones, zeros), 1);
  EXPECT_EQ(kolmogorov_smirnov(std::vector<float>{-0.0F}, std::vector<float>{0.0F}), 0);
  EXPECT_THROW((void)kolmogorov_smirnov({}, ones), Error);
}

TEST(KolmogorovSmirnov, DirectionsAreUnitVectorsAndRepeatable) {
  const Matrix<float> directions = random_directions(50, 9, 1);
  for (std::size_t i = 0; i < 50; ++i) {
    double squares = 0;
    for (const float value : directions.row(i)) squares += std::pow(static_cast<double>(value), 2);
    EXPECT_NEAR(squares, 1, 1e-6);
  }
  EXPECT_EQ(directions, random_directions(50, 9, 1));
  EXPECT_NE(directions, random_directions(50, 9, 2));
}

TEST(KolmogorovSmirnov, AlongDirectionsEqualsTheDefinition) {
  Matrix<float> first(400, 5), second(300, 5);
  RandomStream random(5, 5);
  for (float& value : first.flat()) value = static_cast<float>(random.normal());
  for (float& value : second.flat()) value = static_cast<float>(random.normal() + 0.1);
  const Matrix<float> directions = random_directions(40, 5, 7);
  const std::vector<double> ours = directional_ks(first, second, directions);
  EXPECT_EQ(ours, directional_ks(first, second, directions, 3));
  for (std::size_t d = 0; d < 40; ++d) {
    const auto project = [&](const Matrix<float>& x) {
      std::vector<float> values;
      for (std::size_t i = 0; i < x.rows(); ++i) {
        double sum = 0;
        for (std::size_t j = 0; j < 5; ++j)
          sum += static_cast<double>(x(i, j)) * static_cast<double>(directions(d, j));
        values.push_back(static_cast<float>(sum));
      }
      return values;
    };
    // Projections differ by rounding: that may swap neighbours, one point of each sample.
    EXPECT_NEAR(ours[d], brute_force(project(first), project(second)), 1.0 / 400 + 1.0 / 300);
  }
}

TEST(KolmogorovSmirnov, LeavesOutRows) {
  Matrix<float> first(5000, 3), second(4000, 3);
  RandomStream random(6, 6);
  for (float& value : first.flat()) value = static_cast<float>(random.normal());
  for (float& value : second.flat()) value = static_cast<float>(random.normal() + 0.1);
  const Matrix<float> directions = random_directions(4, 3, 7);
  const auto without = [](const Matrix<float>& x, RowRange rows) {
    std::vector<float> kept;
    for (std::size_t i = 0; i < x.rows(); ++i)
      if (i < rows.begin || i >= rows.end)
        kept.insert(kept.end(), x.row(i).begin(), x.row(i).end());
    return Matrix<float>(kept.size() / 3, 3, kept);
  };
  Team team(2);
  const DirectionalKs ks(first, second, team);
  for (const RowRange a : {RowRange{}, {0, 700}, {1000, 4100}, {4500, 5000}})
    for (const RowRange b : {RowRange{}, {0, 1}, {2047, 2049}})
      EXPECT_EQ(ks.along(directions, {a, b}),
                directional_ks(without(first, a), without(second, b), directions));
  EXPECT_THROW((void)ks.along(directions, {RowRange{0, 5000}, {}}), Error);
}

}  // namespace
}  // namespace oubli
