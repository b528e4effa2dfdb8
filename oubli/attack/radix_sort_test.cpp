#include "oubli/attack/radix_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
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

TEST(RadixSort, SortsColumnsOnAnyTeam) {
  for (const std::size_t rows : {1U, 2U, 777U}) {
    for (const std::size_t columns : {1U, 2U, 5U}) {
      const std::vector<float> values = some_values(rows * columns);
      const auto keys_of = [&](std::size_t column, std::size_t first,
                               std::span<std::uint32_t> keys) {
        for (std::size_t i = 0; i < keys.size(); ++i)
          keys[i] = order_key(values[(first + i) * columns + column]);
      };
      for (const unsigned workers : {1U, 2U, 3U, 4U}) {
        Team team(workers);
        std::mutex mutex;
        std::set<std::pair<std::size_t, std::size_t>> seen;
        for_each_sorted_column(columns, rows, team, keys_of,
                               [&](std::size_t column, std::span<const std::uint32_t> sorted,
                                   std::size_t begin, std::size_t end) {
                                 std::vector<std::uint32_t> expected(rows);
                                 keys_of(column, 0, expected);
                                 std::ranges::sort(expected);
                                 const std::scoped_lock lock(mutex);
                                 EXPECT_TRUE(std::ranges::equal(sorted, expected));
                                 for (std::size_t place = begin; place < end; ++place)
                                   EXPECT_TRUE(seen.insert({column, place}).second);
                               });
        EXPECT_EQ(seen.size(), columns * rows);
      }
    }
  }
}

}  // namespace
}  // namespace oubli
