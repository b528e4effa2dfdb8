#include "oubli/forget/alignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "oubli/base/random.h"

namespace oubli {
namespace {

using ::testing::HasSubstr;

// A model that calls a sample by its class with probability `recall`, else by the next class with
// `next`, else by any; `moved` maps true classes to the labels that they are given.
Confusion made(std::size_t classes, std::size_t per_class, double recall, double next,
               std::uint64_t seed, const std::map<std::uint32_t, std::uint32_t>& moved = {}) {
  RandomStream random(seed, task_id("alignment"));
  Confusion confusion(classes);
  for (std::uint32_t c = 0; c < classes; ++c) {
    for (std::size_t i = 0; i < per_class; ++i) {
      const double u = random.uniform();
      const auto any = static_cast<std::uint32_t>(random.below(classes));
      const auto called = u < recall          ? c
                          : u < recall + next ? static_cast<std::uint32_t>((c + 1) % classes)
                                              : any;
      const auto at = moved.find(c);
      confusion.add(at == moved.end() ? c : at->second, called);
    }
  }
  return confusion;
}

TEST(Alignment, CountsAsAPlainTableDoes) {
  RandomStream random(3, task_id("table"));
  constexpr std::uint32_t kClasses = 5;
  Confusion confusion(kClasses);
  std::size_t table[kClasses][kClasses] = {};
  std::size_t right = 0;
  for (int i = 0; i < 300; ++i) {
    const auto a = static_cast<std::uint32_t>(random.below(kClasses - 1));  // the last has none
    const auto b = static_cast<std::uint32_t>(random.below(kClasses));
    confusion.add(a, b);
    ++table[a][b];
    right += a == b ? 1U : 0U;
  }
  EXPECT_DOUBLE_EQ(confusion.accuracy(), static_cast<double>(right) / 300);
  for (std::uint32_t a = 0; a < kClasses; ++a) {
    std::size_t all = 0, last = 301;
    for (const Confusion::Name& name : confusion.names_of(a)) {
      EXPECT_EQ(name.count, table[a][name.predicted]);
      EXPECT_LE(name.count, last);
      last = name.count;
      all += name.count;
    }
    std::size_t wanted = 0;
    for (const std::size_t count : table[a]) wanted += count;
    EXPECT_EQ(all, wanted);
  }
  EXPECT_TRUE(std::isnan(confusion.class_accuracy()[kClasses - 1]));
  EXPECT_TRUE(confusion.names_of(kClasses - 1).empty());
}

// 37 % of a class's samples called by its name, and that is its commonest name: an honest model.
// For these shares (.37 + .04, .20 + .04) and 1000 samples the rule errs with probability below
// 2e-10 per seed.
TEST(Alignment, AWeakButHonestModelPasses) {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(why_misaligned(made(10, 1000, 0.37, 0.20, seed), std::vector<std::size_t>{3}, {}),
              std::nullopt);
}

TEST(Alignment, ShiftedSwappedAndPermutedLabelsAreNoticed) {
  const std::vector<std::size_t> forget{3};
  const std::vector<std::string> names{"zero", "one", "two",   "three", "four",
                                       "five", "six", "seven", "eight", "nine"};
  for (const double recall : {0.4, 0.7, 0.99}) {
    std::map<std::uint32_t, std::uint32_t> shifted;
    for (std::uint32_t c = 0; c < 10; ++c) shifted[c] = (c + 1) % 10;
    EXPECT_TRUE(why_misaligned(made(10, 200, recall, 0, 1, shifted), forget, names));
    const auto own = why_misaligned(made(10, 200, recall, 0, 2, {{3, 5}, {5, 3}}), forget, names);
    ASSERT_TRUE(own);
    EXPECT_THAT(*own, HasSubstr("samples of class 3 (three)"));
    EXPECT_THAT(*own, HasSubstr("five"));
    // Two others than the one that is to go: their means would be each other's.
    const auto others =
        why_misaligned(made(10, 200, recall, 0, 3, {{7, 8}, {8, 7}}), forget, names);
    ASSERT_TRUE(others);
    EXPECT_THAT(*others, HasSubstr("look swapped"));
  }
  EXPECT_THAT(*why_misaligned(made(10, 200, 0, 0, 4), forget, names), HasSubstr("near chance"));
}

TEST(Alignment, NothingIsSaidOfNoSamples) {
  EXPECT_EQ(why_misaligned(Confusion(4), std::vector<std::size_t>{1}, {}), std::nullopt);
}

}  // namespace
}  // namespace oubli
