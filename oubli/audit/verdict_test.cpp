#include "oubli/audit/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "oubli/audit/test_leaks.h"

namespace oubli {
namespace {

using ::testing::HasSubstr;
using testing::leaks_of;
using testing::Simulated;

TEST(Verdict, HasThreeAnswers) {
  const Leaks floor = leaks_of({.advantages = {0, 0, 0}}, 1);
  const Verdict told = judge(leaks_of({.advantages = {0, 0.6, 0.1}}, 2), &floor, 0);
  EXPECT_EQ(told.outcome, Outcome::told_apart);
  EXPECT_TRUE(told.with_floor);
  EXPECT_EQ(told.comparisons, 3U);
  EXPECT_EQ(told.parts[0].attack, EnumNames<Attack>::kTable[1].value);
  EXPECT_THAT(sentence(told),
              HasSubstr("From one answer an attacker with 70 networks of each kind is right 8"));

  const Simulated nothing{.networks = 2000, .spread = 0.1, .advantages = {0, 0, 0}};
  const Leaks none = leaks_of(nothing, 3), other = leaks_of(nothing, 4);
  const Verdict clear = judge(none, &other, 0);
  EXPECT_EQ(clear.outcome, Outcome::not_told_apart);
  EXPECT_LT(*clear.excess.high, kFaint);
  EXPECT_THAT(sentence(clear), HasSubstr("not told apart within 1 in 100"));

  const Simulated few{.networks = 4, .spread = 0.1, .advantages = {0.05, 0, 0}};
  const Leaks some = leaks_of(few, 5), base = leaks_of(few, 6);
  const Verdict open = judge(some, &base, 0);
  EXPECT_EQ(open.outcome, Outcome::too_few);
  EXPECT_GT(open.parts[0].networks_needed, 20U);
  EXPECT_THAT(sentence(open), HasSubstr("networks of each kind would decide it to ±5 in 100"));
}

// With as many networks as it asked for, the interval is +-kFaint or so.
TEST(Verdict, TheNumberOfNetworksItAsksForDecides) {
  Simulated made{.networks = 12, .spread = 0.15, .advantages = {0, 0, 0, 0}};
  const Leaks some = leaks_of(made, 1), floor = leaks_of(made, 2);
  const std::size_t needed = judge(some, &floor, 0).parts[0].networks_needed;
  ASSERT_GT(needed, 40U);
  made.networks = needed * 3 / 10;
  const Leaks many = leaks_of(made, 3), many_floor = leaks_of(made, 4);
  const Verdict verdict = judge(many, &many_floor, 0);
  EXPECT_LT(*verdict.excess.high - *verdict.excess.value, 1.25 * kFaint);
  EXPECT_GT(*verdict.excess.high - *verdict.excess.value, 0.5 * kFaint);
}

TEST(Verdict, AnAttackFarBelowChanceTellsAsWell) {
  const Leaks floor = leaks_of({.advantages = {0, 0}}, 1);
  EXPECT_EQ(judge(leaks_of({.advantages = {0, -0.5}}, 2), &floor, 0).outcome, Outcome::told_apart);
}

// The bound is the largest upper end, not the interval of the attack with the largest figure.
TEST(Verdict, TheBoundIsOverAllAttacks) {
  Leaks leaks = leaks_of({.spread = 0.02, .advantages = {0.3, 0.2}}, 1);
  AttackLeak& wide = leaks.classes[0].observers[0].attacks[1];
  for (auto& side : wide.shares)
    for (std::size_t n = 0; n < side.size(); ++n) side[n] = n % 2 == 0 ? 1 : 0.2;
  wide.advantage = Figure::of(0.2);
  const Verdict verdict = judge(leaks, nullptr, 0);
  EXPECT_FALSE(verdict.with_floor);
  EXPECT_EQ(verdict.parts[0].attack, EnumNames<Attack>::kTable[0].value);
  EXPECT_NEAR(*verdict.excess.value, 0.3, 0.02);
  EXPECT_GT(*verdict.excess.high, 0.2 + 2 * 0.4 * std::sqrt(2.0 / 30));
}

TEST(Verdict, SaysWhyThereIsNone) {
  EXPECT_THAT(sentence(judge(Leaks{}, nullptr, 0)), HasSubstr("No verdict: no attack"));
  const Verdict one = judge(leaks_of({.networks = 1, .advantages = {0.5}}, 1), nullptr, 0);
  EXPECT_FALSE(one.outcome);
  EXPECT_THAT(one.reason, HasSubstr("1 and 1 test networks"));
}

TEST(Verdict, IsReadBackAsItWasWritten) {
  for (const std::size_t networks : {1U, 4U, 30U}) {
    const Verdict verdict = judge(
        leaks_of({.networks = networks, .advantages = std::vector<double>(9, 0.2)}, 1), nullptr, 0);
    const nlohmann::json json = verdict;
    Verdict back;
    from_json(json, back);
    EXPECT_EQ(nlohmann::json(back), json);
  }
}

}  // namespace
}  // namespace oubli
