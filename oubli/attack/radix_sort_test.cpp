#include "oubli/attack/radix_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <set>
#include <vector>

#include "oubli/base/random.h"

namespace oubli {
namespace {

std::vector<float> some_values(std::size_t count) {
  RandomStream random(1, count);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(random.normal() * std::pow(10, random.uniform() * 60 - 30));
    if (random.below(5) == 0) value = static_cast<float>(random.below(3)) - 1;
    if (random.below(9) == 0) value = -0.0F;
  }
  return values;
}

TEST(RadixSort, SortsAsStdSort) {
  for (const std::size_t count : {0U, 1U, 2U, 1000U, 5000U}) {
    std::vector<float> values = some_values(count), sorted;
    std::vector<std::uint32_t> keys, out(count);
    for (const float value : values) keys.push_back(order_key(value));
    radix_sort(keys, out);
    for (const std::uint32_t key : out) sorted.push_back(value_of_key(key));
    std::ranges::sort(values);
    EXPECT_EQ(sorted, values);
  }
}

TEST(RadixSort, IsStable) {
  const std::vector<float> values = some_values(1000);
  std::vector<std::uint64_t> keys, out(1000);
  for (std::size_t i = 0; i < 1000; ++i)
    keys.push_back(static_cast<std::uint64_t>(order_key(values[i])) << 32 | i);
  radix_sort(keys, out);
  std::vector<std::uint32_t> expected(1000), order;
  std::iota(expected.begin(), expected.end(), 0U);
  std::ranges::stable_sort(expected, {}, [&](std::uint32_t i) { return values[i]; });
  for (const std::uint64_t key : out) order.push_back(static_cast<std::uint32_t>(key));
  EXPECT_EQ(order, expected);
}

TEST(RadixSort, SortsColumnsOnAnyTeam) {
  for (const std::size_t rows : {1U, 2U, 777U}) {
    for (const std::size_t columns : {1U, 2U, 5U}) {
      const std::vector<float> values = some_values(rows * columns);
      for (const unsigned workers : {1U, 2U, 3U, 4U}) {
        Team team(workers);
        std::mutex mutex;
        std::set<std::pair<std::size_t, std::size_t>> seen;
        for_each_sorted_column<std::uint64_t>(
            columns, rows, team,
            [&](std::size_t column, std::size_t first, std::span<std::uint64_t> keys) {
              for (std::size_t i = 0; i < keys.size(); ++i)
                keys[i] =
                    static_cast<std::uint64_t>(order_key(values[(first + i) * columns + column]))
                        << 32 |
                    (first + i);
            },
            [&](std::size_t column, std::span<const std::uint64_t> sorted, std::size_t begin,
                std::size_t end) {
              const std::scoped_lock lock(mutex);
              for (std::size_t place = begin; place < end; ++place)
                EXPECT_TRUE(seen.insert({column, place}).second);
              ASSERT_EQ(sorted.size(), rows);
              EXPECT_TRUE(std::ranges::is_sorted(sorted));
              for (const std::uint64_t key : sorted)
                EXPECT_EQ(value_of_key(static_cast<std::uint32_t>(key >> 32)),
                          values[(key & 0xFFFFFFFFU) * columns + column]);
            });
        EXPECT_EQ(seen.size(), columns * rows);
      }
    }
  }
}

}  // namespace
}  // namespace oubli
