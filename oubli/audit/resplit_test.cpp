#include "oubli/audit/resplit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "oubli/audit/test_populations.h"

namespace oubli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// q = 0.3: 2 q (1 - q) = 0.42, and 0.42 / 0.58 = 0.7241. 4.30265 is the upper 2.5 % point of
// Student's t with two degrees of freedom.
TEST(OverSplits, IsTheCorrectedResampledInterval) {
  const double splits[] = {0.1, 0.2, 0.3};
  const Figure figure = over_splits(splits, {70, 30}, {70, 30}, 100);
  const double half = 4.30265 * std::sqrt(1.0 / 3 + 0.42 / 0.58) * 0.1;
  EXPECT_NEAR(*figure.value, 0.2, 1e-12);
  EXPECT_NEAR(*figure.high - 0.2, half, 1e-5);
  EXPECT_NEAR(0.2 - *figure.low, half, 1e-5);
  // The population of which more is tested decides: q = 7/9, more than 2 q (1 - q).
  const double close[] = {0.15, 0.2, 0.25};
  const Figure uneven = over_splits(close, {20, 70}, {20, 10}, 100);
  EXPECT_NEAR(*uneven.high - 0.2, 4.30265 * std::sqrt(1.0 / 3 + 7.0 / 2) * 0.05, 1e-5);
}

// 2 x 6 networks of 50 answers, all right: as sure as 600 independent ones, counted as 601 of 602.
TEST(OverSplits, AgreeingSplitsAreNotCertainty) {
  const double certain[] = {1, 1, 1};
  const Figure figure = over_splits(certain, {14, 6}, {14, 6}, 50);
  const double right = 601.0 / 602;
  EXPECT_EQ(*figure.high, 1);
  EXPECT_NEAR(1 - *figure.low, 4.30265 * std::sqrt(right * (1 - right) * 2 / 300), 1e-5);
}

TEST(OverSplits, SaysWhyThereIsNoInterval) {
  const double splits[] = {0.1, 0.2};
  EXPECT_THAT(over_splits(splits, {7, 3}, {7, 6}, 9).reason, HasSubstr("3 and 6 test networks"));
  EXPECT_EQ(over_splits(splits, {7, 3}, {7, 6}, 9).value, 0.15000000000000002);
  EXPECT_EQ(over_splits(std::span(splits, 1), {70, 30}, {70, 30}, 9).reason, "a single split");
}

class AddSplits : public ::testing::Test {
 protected:
  AddSplits() {
    made_.shift_first = 1;
    options_.attacks = {Attack::forest, Attack::logistic, Attack::per_image};
    options_.answers = {1};
    options_.observers = {Observer::logits, Observer::label};
  }
  [[nodiscard]] Leaks split(std::size_t number) const {
    AuditOptions options = options_;
    options.split = number;
    return tell_apart(seen_, unseen_, testing::made_samples(made_, labels_), options);
  }

  testing::Made made_{.models = 20, .model_effect = 0.5};
  std::vector<std::uint32_t> labels_ = testing::made_labels(made_);
  Population seen_ = testing::made_population(made_, 1),
             unseen_ = testing::made_population({.models = 20, .model_effect = 0.5}, 2);
  AuditOptions options_ = testing::quick();
};

TEST_F(AddSplits, HoldsTheAdvantagesOfEverySplit) {
  Leaks leaks = split(0);
  add_splits(leaks, seen_, unseen_, testing::made_samples(made_, labels_), options_, 3);
  const Leaks again[] = {split(0), split(1), split(2)};
  std::size_t compared = 0;
  const auto compare = [&](const AttackLeak& attack, const auto& leak_of) {
    ASSERT_EQ(attack.splits.size(), 3U);
    for (std::size_t s = 0; s < 3; ++s)
      EXPECT_EQ(attack.splits[s], *leak_of(again[s]).advantage.value) << name_of(attack) << s;
    EXPECT_NEAR(*attack.over_splits.value, mean_std(attack.splits).mean, 1e-15);
    EXPECT_TRUE(attack.over_splits.low);
    ++compared;
  };
  for (std::size_t o = 0; o < 2; ++o)
    for (std::size_t a = 0; a < 3; ++a) {
      compare(leaks.forgotten[o].attacks[a],
              [&](const Leaks& l) -> const AttackLeak& { return l.forgotten[o].attacks[a]; });
      compare(leaks.retained[o].attacks[a],
              [&](const Leaks& l) -> const AttackLeak& { return l.retained[o].attacks[a]; });
      for (std::size_t c = 0; c < 4; ++c)
        compare(leaks.classes[c].observers[o].attacks[a], [&](const Leaks& l) -> const AttackLeak& {
          return l.classes[c].observers[o].attacks[a];
        });
    }
  EXPECT_EQ(compared, 2U * 3 * 6);
  // The splits are different ones.
  const std::vector<double>& values = leaks.forgotten[0].attacks[1].splits;
  EXPECT_NE(values[0], values[1]);
  EXPECT_NE(values[1], values[2]);
}

TEST_F(AddSplits, ChangesNothingElse) {
  Leaks leaks = split(0);
  const std::string before = json(leaks).dump();
  AuditOptions some = options_;
  some.attacks = {Attack::logistic};
  some.observers = {Observer::label};
  add_splits(leaks, seen_, unseen_, testing::made_samples(made_, labels_), some, 1);
  EXPECT_EQ(json(leaks).dump(), before);
  add_splits(leaks, seen_, unseen_, testing::made_samples(made_, labels_), some, 2);
  EXPECT_NE(json(leaks).dump(), before);
  EXPECT_TRUE(leaks.forgotten[0].attacks[1].splits.empty());
  EXPECT_TRUE(leaks.forgotten[1].attacks[0].splits.empty());
  EXPECT_EQ(leaks.forgotten[1].attacks[1].splits.size(), 2U);
  const auto forget_splits = [](std::vector<ObserverLeak>& leaks_of) {
    for (ObserverLeak& leak : leaks_of)
      for (AttackLeak& attack : leak.attacks) attack.splits.clear();
  };
  forget_splits(leaks.forgotten);
  forget_splits(leaks.retained);
  for (ClassLeaks& of_class : leaks.classes) forget_splits(of_class.observers);
  EXPECT_EQ(json(leaks).dump(), before);
}

}  // namespace
}  // namespace oubli
