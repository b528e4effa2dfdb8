#include "oubli/attack/nearest_neighbours.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "oubli/attack/point_blocks.h"
#include "oubli/attack/test_points.h"

namespace oubli {
namespace {

using testing::coarse_points;
using testing::Points;
using testing::two_gaussians;

// The definition: sort all training points by (squared distance in double, position).
std::vector<std::uint8_t> brute_force(const Points& train, MatrixView<const float> queries,
                                      std::size_t k) {
  std::vector<std::uint8_t> answers;
  for (std::size_t q = 0; q < queries.rows(); ++q) {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < train.x.rows(); ++i) {
      // volatile: the sum of rounded squares, without fused operations
      volatile double sum = 0;
      for (std::size_t f = 0; f < queries.cols(); ++f) {
        const double difference =
            static_cast<double>(train.x(i, f)) - static_cast<double>(queries(q, f));
        volatile double square = difference * difference;
        sum = sum + square;
      }
      order.emplace_back(sum, i);
    }
    std::ranges::sort(order);
    const std::size_t used = std::min(k, order.size());
    std::size_t ones = 0;
    for (std::size_t i = 0; i < used; ++i) ones += train.y[order[i].second];
    answers.push_back(2 * ones > used ? 1 : 0);
  }
  return answers;
}

std::vector<std::uint8_t> predict(const Points& train, MatrixView<const float> queries,
                                  NearestNeighboursOptions options) {
  RandomStream random(0, 0);
  return NearestNeighbours::fit(train.x, train.y, options, random).predict(queries);
}

class NearestNeighboursByDimension : public ::testing::TestWithParam<std::size_t> {};

TEST_P(NearestNeighboursByDimension, EqualsBruteForce) {
  const std::size_t features = GetParam();
  const Points train = two_gaussians(1500, features, 1, 1);
  const Points test = two_gaussians(300, features, 1, 2);
  for (const std::size_t k : {1U, 4U, 5U})
    EXPECT_EQ(predict(train, test.x, {.neighbours = k}), brute_force(train, test.x, k));
}

TEST_P(NearestNeighboursByDimension, EqualsBruteForceWithTies) {
  const std::size_t features = GetParam();
  const Points train = coarse_points(800, features, features < 4 ? 9 : 3, 3);
  const Points test = coarse_points(200, features, features < 4 ? 9 : 3, 4);
  EXPECT_EQ(predict(train, test.x, {}), brute_force(train, test.x, 5));
}

INSTANTIATE_TEST_SUITE_P(Dimensions, NearestNeighboursByDimension,
                         ::testing::Values(1, 2, 9, 15, 16, 40));

// The votes behind the answers: 3 and 2 of 5 neighbours.
TEST(NearestNeighbours, ScoresAreTheShareOfVotes) {
  Points train{Matrix<float>(7, 1), {1, 1, 0, 1, 0, 0, 0}};
  for (std::size_t i = 0; i < 7; ++i) train.x(i, 0) = static_cast<float>(i);
  Matrix<float> queries(2, 1);
  queries(1, 0) = 6;
  RandomStream random(0, 0);
  const auto scores = NearestNeighbours::fit(train.x, train.y, {}, random).score(queries);
  EXPECT_NEAR(scores[0], 0.1, 1e-15);   // 0 to 4: three of five
  EXPECT_NEAR(scores[1], -0.3, 1e-15);  // 2 to 6: one of five
}

TEST(NearestNeighbours, SameAnswersOnAnyNumberOfWorkers) {
  const Points train = two_gaussians(5000, 9, 1, 5);
  const Points test = two_gaussians(5000, 9, 1, 6);
  EXPECT_EQ(predict(train, test.x, {.workers = 1}), predict(train, test.x, {.workers = 3}));
}

TEST(NearestNeighbours, AllPointsEqualVotesByPosition) {
  Points train{Matrix<float>(100, 3), std::vector<std::uint8_t>(100, 0)};
  train.y[0] = train.y[2] = train.y[4] = 1;  // three of the first five
  const Matrix<float> query(1, 3);
  EXPECT_EQ(predict(train, query, {}), std::vector<std::uint8_t>{1});
  train.y[4] = 0;
  EXPECT_EQ(predict(train, query, {}), std::vector<std::uint8_t>{0});
}

TEST(NearestNeighbours, OneLabelIsTheAnswer) {
  Points train = two_gaussians(300, 4, 1, 9);
  const Points test = two_gaussians(50, 4, 1, 10);
  for (const std::uint8_t label : {std::uint8_t{0}, std::uint8_t{1}}) {
    std::ranges::fill(train.y, label);
    EXPECT_EQ(predict(train, test.x, {}), std::vector<std::uint8_t>(test.x.rows(), label));
  }
}

TEST(NearestNeighbours, FewerPointsThanNeighboursAllVote) {
  Points train{Matrix<float>(3, 2), {1, 1, 0}};
  const Matrix<float> query(1, 2);
  EXPECT_EQ(predict(train, query, {}), std::vector<std::uint8_t>{1});
}

TEST(NearestNeighbours, HugeAndTinyValues) {
  // Squares beyond float's range, and below it.
  for (const float scale : {1e30F, 1e-30F}) {
    Points train = two_gaussians(400, 5, 1, 7), test = two_gaussians(100, 5, 1, 8);
    for (float& value : train.x.flat()) value *= scale;
    for (float& value : test.x.flat()) value *= scale;
    EXPECT_EQ(predict(train, test.x, {}), brute_force(train, test.x, 5)) << scale;
  }
}

// Every kernel passes all points within the bound, whatever its rounding, and none that is
// clearly outside.
TEST(PointKernels, KeepEverythingWithinTheBound) {
  RandomStream random(1, 2);
  for (const PointKernels& kernels : all_point_kernels()) {
    for (int repeat = 0; repeat < 200; ++repeat) {
      const std::size_t features = 1 + random.below(40);
      std::vector<float> block(features * kBlock), query(features);
      for (float& value : block) value = static_cast<float>(random.normal());
      for (float& value : query) value = static_cast<float>(random.normal());
      std::vector<double> distances(kBlock);
      for (std::size_t i = 0; i < kBlock; ++i)
        for (std::size_t f = 0; f < features; ++f)
          distances[i] += std::pow(
              static_cast<double>(block[f * kBlock + i]) - static_cast<double>(query[f]), 2);
      const double bound = distances[random.below(kBlock)];
      const std::uint64_t mask =
          kernels.near(block.data(), query.data(), features, filter_bound(bound, features));
      for (std::size_t i = 0; i < kBlock; ++i) {
        const bool kept = (mask >> i & 1U) != 0;
        EXPECT_TRUE(kept || distances[i] > bound);
        EXPECT_TRUE(!kept || distances[i] <= bound * 1.0001);
      }
    }
  }
}

TEST(PointKernels, BoxDistancesAgree) {
  RandomStream random(3, 4);
  for (int repeat = 0; repeat < 200; ++repeat) {
    alignas(64) Box boxes[2];
    float query[kBoxWidth];
    for (std::size_t f = 0; f < kBoxWidth; ++f) {
      query[f] = static_cast<float>(2 * random.normal());
      for (Box& box : boxes) {
        box.low[f] = static_cast<float>(random.normal());
        box.high[f] = box.low[f] + static_cast<float>(random.uniform());
      }
    }
    for (const PointKernels& kernels : all_point_kernels()) {
      float distances[2];
      kernels.box_distances(boxes, query, distances);
      for (std::size_t b = 0; b < 2; ++b) {
        double exact = 0;
        for (std::size_t f = 0; f < kBoxWidth; ++f)
          exact += std::pow(
              std::max({static_cast<double>(boxes[b].low[f]) - static_cast<double>(query[f]),
                        static_cast<double>(query[f]) - static_cast<double>(boxes[b].high[f]),
                        0.0}),
              2);
        EXPECT_NEAR(static_cast<double>(distances[b]), exact, exact * 20 * 0x1p-24);
      }
    }
  }
}

}  // namespace
}  // namespace oubli
