#include "oubli/attack/random_forest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "oubli/attack/test_points.h"
#include "oubli/attack/transpose.h"

namespace oubli {
namespace {

using testing::coarse_points;
using testing::Points;
using testing::two_gaussians;

RandomForest fit(const Points& train, RandomForestOptions options, std::uint64_t seed = 0) {
  RandomStream random(seed, 0);
  return RandomForest::fit(train.x, train.y, options, random);
}

TEST(Bins, FewValuesEachHaveTheirOwn) {
  Matrix<float> x(6, 1, {3, 1, 2, 1, 3, 10});
  Team team(2);
  const Bins bins = Bins::fit(transposed(x, team), team);
  EXPECT_EQ(std::vector<float>(bins.edges(0).begin(), bins.edges(0).end()),
            (std::vector<float>{1.5, 2.5, 6.5}));
  EXPECT_EQ(bins.columns(transposed(x, team), team),
            (Matrix<std::uint16_t>(1, 6, {2, 0, 1, 0, 2, 3})));
}

TEST(Bins, AreTheNumberOfEdgesBelow) {
  const Points points = two_gaussians(20000, 3, 0, 1);
  Team team(2);
  const Bins bins = Bins::fit(transposed(points.x, team), team);
  const Matrix<std::uint16_t> columns = bins.columns(transposed(points.x, team), team);
  std::vector<std::uint16_t> rows(columns.flat().size());
  bins.rows(points.x, rows);
  std::vector<std::size_t> counts(Bins::kMostBins);
  for (std::size_t i = 0; i < points.x.rows(); ++i) {
    for (std::size_t f = 0; f < 3; ++f) {
      const auto below =
          std::ranges::count_if(bins.edges(f), [&](float edge) { return edge < points.x(i, f); });
      ASSERT_EQ(columns(f, i), below);
      ASSERT_EQ(rows[i * 3 + f], below);
    }
    ++counts[rows[i * 3]];
  }
  EXPECT_EQ(bins.edges(0).size(), Bins::kMostBins - 1);
  EXPECT_LE(*std::ranges::max_element(counts), 20000 / Bins::kMostBins + 2);
}

TEST(Bins, OneHeavyValueStaysWhole) {
  Points points = two_gaussians(3000, 1, 0, 2);
  for (std::size_t i = 0; i < 2000; ++i) points.x(i, 0) = 0.5F;
  Team team(2);
  const Bins bins = Bins::fit(transposed(points.x, team), team);
  const Matrix<std::uint16_t> columns = bins.columns(transposed(points.x, team), team);
  for (std::size_t i = 2000; i < 3000; ++i)
    EXPECT_TRUE(points.x(i, 0) <= 0.6F || columns(0, i) > columns(0, 0));
}

// One tree on all features, without bootstrap, equals the tree of the definition.
struct BruteTree {
  const Points& data;
  std::size_t depth;

  double probability(std::vector<std::size_t> rows, std::size_t level,
                     std::span<const float> query) const {
    double ones = 0;
    for (const std::size_t row : rows) ones += data.y[row];
    const auto n = static_cast<double>(rows.size());
    if (ones == 0 || ones == n || level == depth) return ones / n;
    double best = -1;
    std::size_t feature = 0;
    float threshold = 0;
    for (std::size_t f = 0; f < data.x.cols(); ++f) {
      for (const std::size_t at : rows) {
        double l = 0, p = 0;
        float next = std::numeric_limits<float>::infinity();
        for (const std::size_t row : rows) {
          if (data.x(row, f) <= data.x(at, f)) {
            l += 1;
            p += data.y[row];
          } else {
            next = std::min(next, data.x(row, f));
          }
        }
        if (l == n) continue;
        const double merit = p * p / l + (ones - p) * (ones - p) / (n - l);
        if (merit > best + 1e-12) {
          best = merit;
          feature = f;
          threshold = (data.x(at, f) + next) / 2;
        }
      }
    }
    if (best < 0) return ones / n;
    std::vector<std::size_t> side;
    const bool left = query[feature] <= threshold;
    for (const std::size_t row : rows)
      if ((data.x(row, feature) <= threshold) == left) side.push_back(row);
    return probability(side, level + 1, query);
  }
};

TEST(DecisionTree, EqualsTheDefinition) {
  // Few values, so that binning loses nothing; features of different merit, so that the order
  // in which they are tried does not matter.
  Points train = coarse_points(300, 3, 12, 3);
  for (std::size_t i = 0; i < 300; ++i) {
    RandomStream random(9, i);
    const double score = static_cast<double>(train.x(i, 0)) * 0.8 +
                         static_cast<double>(train.x(i, 1)) * 0.5 +
                         static_cast<double>(train.x(i, 2)) * 0.3 + random.normal();
    train.y[i] = score > 8.8 ? 1 : 0;
  }
  Team team(2);
  const Bins bins = Bins::fit(transposed(train.x, team), team);
  const Matrix<std::uint16_t> columns = bins.columns(transposed(train.x, team), team);
  const std::vector<std::uint16_t> once(300, 1);
  std::vector<std::size_t> rows(300);
  for (std::size_t i = 0; i < 300; ++i) rows[i] = i;
  TreeBuffers buffers;  // the same for all: a tree must leave nothing to the next
  for (const std::size_t depth : {1U, 2U, 3U}) {
    RandomStream random(1, 1);
    const DecisionTree tree =
        DecisionTree::fit({columns.flat(), 300, 3, train.y}, once,
                          {.max_depth = depth, .max_features = 3}, random, buffers);
    std::vector<std::uint16_t> test(300 * 3);
    bins.rows(train.x, test);
    std::vector<float> sums(300);
    tree.add_probability(test, 3, sums);
    const BruteTree brute{train, depth};
    for (std::size_t i = 0; i < 300; ++i)
      ASSERT_NEAR(static_cast<double>(sums[i]), brute.probability(rows, 0, train.x.row(i)), 1e-6);
  }
}

TEST(RandomForest, UnlimitedTreesLearnTheirSample) {
  const Points train = two_gaussians(500, 4, 0.5, 4);
  const std::vector<double> p = fit(train, {.trees = 200}).score(train.x);
  // A point is in 63 % of the bootstrap samples, and there its own tree is certain.
  std::size_t right = 0;
  for (std::size_t i = 0; i < 500; ++i) right += (p[i] > 0) == (train.y[i] != 0) ? 1U : 0U;
  EXPECT_GE(right, 495U);
}

TEST(RandomForest, NearsTheBestClassifier) {
  const Points train = two_gaussians(20000, 9, 2, 5), test = two_gaussians(20000, 9, 2, 6);
  const double best = std::erf(1 / std::sqrt(2.0)) / 2 + 0.5;  // Phi(1) = 0.841
  const double paper = testing::accuracy(fit(train, RandomForest::kPaper).predict(test.x), test.y);
  const double strong =
      testing::accuracy(fit(train, RandomForest::kStrong).predict(test.x), test.y);
  // The standard error of an accuracy here is 0.0026: above the best by 4 of them has odds of 3e-5.
  EXPECT_LT(strong, best + 0.0104);
  EXPECT_LT(paper, best + 0.0104);
  EXPECT_GT(strong, best - 0.02);
  EXPECT_GT(paper, best - 0.06);
}

TEST(RandomForest, SameAnswersOnAnyNumberOfWorkers) {
  const Points train = two_gaussians(3000, 9, 1, 7), test = two_gaussians(9000, 9, 1, 8);
  const auto with = [&](unsigned workers) {
    return fit(train, {.trees = 20, .workers = workers}).score(test.x);
  };
  EXPECT_EQ(with(1), with(3));
}

TEST(RandomForest, SeedsGiveDifferentForests) {
  const Points train = two_gaussians(1000, 9, 1, 9);
  EXPECT_NE(fit(train, {.trees = 5}, 1).score(train.x), fit(train, {.trees = 5}, 2).score(train.x));
}

TEST(RandomForest, DegenerateData) {
  Points train = coarse_points(40, 2, 5, 10);
  for (const auto label : {std::uint8_t{0}, std::uint8_t{1}}) {  // one label
    std::ranges::fill(train.y, label);
    EXPECT_EQ(fit(train, {.trees = 3}).predict(train.x), train.y);
  }
  // Constant features: the majority of each bootstrap sample, here certain enough.
  Points constant{Matrix<float>(100, 3), std::vector<std::uint8_t>(100, 1)};
  for (std::size_t i = 0; i < 10; ++i) constant.y[i] = 0;
  EXPECT_EQ(fit(constant, {.trees = 5}).predict(constant.x), std::vector<std::uint8_t>(100, 1));
  // One point.
  const Points one{Matrix<float>(1, 1), {1}};
  EXPECT_EQ(fit(one, {.trees = 2}).predict(one.x), one.y);
}

TEST(RandomForest, ConstantFeaturesDoNotHideTheOthers) {
  // 99 constant features and one that tells everything: splits go on until a varying one is found.
  Points train{Matrix<float>(200, 100), std::vector<std::uint8_t>(200)};
  for (std::size_t i = 0; i < 200; ++i) {
    train.y[i] = static_cast<std::uint8_t>(i % 2);
    train.x(i, 57) = static_cast<float>(i % 2);
  }
  EXPECT_EQ(fit(train, {.trees = 3}).predict(train.x), train.y);
}

}  // namespace
}  // namespace oubli
