#include "oubli/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

namespace oubli {
namespace {

TEST(RandomStream, KnownAnswers) {
  // Random123's kat_vectors: philox4x32 10 rounds, counter and key zero.
  RandomStream stream(0, 0);
  EXPECT_EQ(stream.next_u32(), 0x6627e8d5u);
  EXPECT_EQ(stream.next_u32(), 0xe169c58du);
  EXPECT_EQ(stream.next_u32(), 0xbc57ac4cu);
  EXPECT_EQ(stream.next_u32(), 0x9b00dbd8u);
}

TEST(RandomStream, DependsOnSeedAndTaskOnly) {
  RandomStream a(7, 3), same(7, 3), other_task(7, 4), other_seed(8, 3);
  for (int i = 0; i < 100; ++i) {
    const auto x = a.next_u64();
    EXPECT_EQ(x, same.next_u64());
    EXPECT_NE(x, other_task.next_u64());  // equal with probability 2^-64 each
    EXPECT_NE(x, other_seed.next_u64());
  }
}

TEST(RandomStream, UniformAndNormalHaveTheirMoments) {
  // Fixed seed, so this passes always or never; the bounds are 5 standard errors.
  constexpr int n = 100'000;
  RandomStream stream(1, task_id("moments"));
  double sum = 0, normal_sum = 0, normal_squares = 0;
  for (int i = 0; i < n; ++i) {
    const double u = stream.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    const double z = stream.normal();
    normal_sum += z;
    normal_squares += z * z;
  }
  EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(normal_sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(normal_squares / n, 1, 5 * std::sqrt(2.0 / n));
}

TEST(RandomStream, BelowCoversItsRangeEvenly) {
  RandomStream stream(2, 0);
  std::vector<int> counts(7);
  for (int i = 0; i < 70'000; ++i) ++counts[stream.below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 5 * std::sqrt(10'000 * 6 / 7.0));
}

TEST(RandomStream, ShuffleIsAPermutation) {
  std::vector<int> items(1000);
  std::iota(items.begin(), items.end(), 0);
  auto shuffled = items;
  RandomStream(3, 1).shuffle(std::span(shuffled));
  EXPECT_NE(shuffled, items);
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, items);
}

TEST(TaskId, DiffersByPurposeAndNumbers) {
  std::set<std::uint64_t> ids{task_id("a"),      task_id("b"),         task_id("a", {0}),
                              task_id("a", {1}), task_id("a", {0, 1}), task_id("a", {1, 0})};
  EXPECT_EQ(ids.size(), 6u);
}

}  // namespace
}  // namespace oubli
