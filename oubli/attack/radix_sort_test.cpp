#include "oubli/attack/radix_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

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
  std::vector<std::uint64_t> scratch;
  for (const std::size_t count : {0U, 1U, 2U, 1000U, 5000U}) {
    std::vector<float> values = some_values(count), expected = values;
    radix_sort(values, scratch);
    std::ranges::sort(expected);
    EXPECT_EQ(values, expected);
  }
}

TEST(RadixSort, OrderIsStable) {
  std::vector<std::uint64_t> scratch;
  const std::vector<float> values = some_values(3000);  // 1000 rows of 3
  const std::vector<std::uint32_t> order = radix_order(values.data() + 1, 1000, 3, scratch);
  std::vector<std::uint32_t> expected(1000);
  std::iota(expected.begin(), expected.end(), 0U);
  std::ranges::stable_sort(expected, {}, [&](std::uint32_t i) { return values[3 * i + 1]; });
  EXPECT_EQ(order, expected);
}

}  // namespace
}  // namespace oubli
