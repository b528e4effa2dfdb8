#include "oubli/audit/alignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "oubli/audit/test_populations.h"
#include "oubli/base/error.h"
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
    const auto three =
        why_misaligned(made(10, 200, recall, 0, 3, {{7, 8}, {8, 1}, {1, 7}}), forget, names);
    ASSERT_TRUE(three);
    EXPECT_THAT(*three, HasSubstr("1 (one), 8 (eight), 7 (seven)"));
    EXPECT_THAT(*three, HasSubstr("look permuted"));
  }
  EXPECT_THAT(*why_misaligned(made(10, 200, 0, 0, 4), forget, names), HasSubstr("near chance"));
}

// Two classes that are often taken for each other, with their labels exchanged: where either name is
// about as common in one of them, the two together show it.
TEST(Alignment, ConfusableClassesThatAreSwappedAreNoticed) {
  const auto pair = [](std::size_t a_as_a, std::size_t a_as_b, std::size_t b_as_b,
                       std::size_t b_as_a, bool swapped) {
    Confusion confusion(10);
    const auto add = [&](std::uint32_t label, std::uint32_t called, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) confusion.add(label, called);
    };
    add(swapped ? 4 : 3, 3, a_as_a);
    add(swapped ? 4 : 3, 4, a_as_b);
    add(swapped ? 3 : 4, 4, b_as_b);
    add(swapped ? 3 : 4, 3, b_as_a);
    for (std::uint32_t c = 5; c < 10; ++c) add(c, c, 100);
    return why_misaligned(confusion, std::vector<std::size_t>{3}, {});
  };
  // A class that is called by the other's name a little more often: an honest model.
  EXPECT_EQ(pair(45, 55, 70, 30, false), std::nullopt);
  ASSERT_TRUE(pair(45, 55, 70, 30, true));
  const auto more = pair(60, 40, 48, 52, true);
  ASSERT_TRUE(more);
  EXPECT_THAT(*more, HasSubstr("look swapped"));
  EXPECT_EQ(pair(60, 40, 48, 52, false), std::nullopt);
  // Exact shares: counts of unequally many samples would say otherwise.
  EXPECT_EQ(pair(6, 4, 480, 520, false), std::nullopt);
  ASSERT_TRUE(pair(6, 4, 480, 520, true));
}

// Commonest names that lead into a circle, or to a class of its own name, are no circle themselves.
TEST(Alignment, OnlyCirclesLookPermuted) {
  const auto named = [](const std::vector<std::uint32_t>& names) {
    Confusion confusion(names.size());
    for (std::uint32_t label = 0; label < names.size(); ++label)
      for (int i = 0; i < 10; ++i) confusion.add(label, names[label]);
    return why_misaligned(confusion, {}, {});
  };
  EXPECT_EQ(named({0, 0, 1, 3, 4, 5}), std::nullopt);
  const auto into = named({1, 2, 1, 3, 4, 5});
  ASSERT_TRUE(into);
  EXPECT_THAT(*into, HasSubstr("class 1 by the name of 2"));
}

using testing::Made;
using testing::made_labels;
using testing::made_population;
using testing::made_samples;

// Labels as an audit is given them: `moved` has the label for each true class.
std::optional<std::string> why_audit(const Made& made, const std::vector<std::uint32_t>& moved,
                                     bool with_before) {
  std::vector<std::uint32_t> labels = made_labels(made);
  for (std::uint32_t& label : labels) label = moved[label];
  Made before = made;
  before.all_columns = true;
  AuditInput input{.seen = made_population(made, 1),
                   .unseen = made_population(made, 2, "retrained"),
                   .unseen2 = {},
                   .before = {},
                   .features = {},
                   .samples = made_samples(made, labels),
                   .class_names = {}};
  if (with_before) input.before = made_population(before, 3, "before");
  const auto why = why_misaligned(input);
  if (why)
    EXPECT_THROW(require_aligned(input), Error);
  else
    EXPECT_NO_THROW(require_aligned(input));
  return why;
}

TEST(Alignment, AuditsAreJudgedByRetrainedNetworksAndByThoseFromBefore) {
  const Made made{.models = 12, .classes = 8, .per_class = 60, .forgotten = 1};
  const std::vector<std::uint32_t> right{0, 1, 2, 3, 4, 5, 6, 7}, shifted{1, 2, 3, 4, 5, 6, 7, 0},
      others{0, 1, 3, 2, 4, 5, 6, 7}, own{0, 3, 2, 1, 4, 5, 6, 7}, circle{2, 1, 3, 0, 4, 5, 6, 7};
  EXPECT_EQ(why_audit(made, right, true), std::nullopt);
  for (const bool with_before : {false, true}) {
    const std::string whose = with_before ? "before: " : "retrained: ";
    const auto found = [&](const std::vector<std::uint32_t>& moved) {
      return why_audit(made, moved, with_before).value_or("nothing");
    };
    EXPECT_EQ(why_audit(made, right, with_before), std::nullopt);
    EXPECT_THAT(found(shifted), HasSubstr(whose));
    EXPECT_THAT(found(others), HasSubstr(whose));
    EXPECT_THAT(found(others), HasSubstr("2 by the name of 3"));
    EXPECT_THAT(found(circle), HasSubstr("look permuted"));
    EXPECT_THAT(found(own), HasSubstr(with_before ? "samples of class 1" : "look swapped"));
  }
}

// A retrained network may call all samples of the forgotten class by one name.
TEST(Alignment, AForgottenClassMayLookLikeAnother) {
  const Made made{.models = 12, .classes = 5, .per_class = 60, .forgotten = 1, .shift_first = 20};
  EXPECT_EQ(why_audit(made, {0, 1, 2, 3, 4}, false), std::nullopt);
}

TEST(Alignment, NothingIsSaidOfNoSamples) {
  EXPECT_EQ(why_misaligned(Confusion(4), std::vector<std::size_t>{1}, {}), std::nullopt);
}

}  // namespace
}  // namespace oubli
