#include "oubli/report/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace oubli::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Level = ObserverVerdict::Level;

Figure around(double value) { return {value, value - 0.02, value + 0.02, ""}; }

// One attack of a method, and its floor.
struct Row {
  std::string method;
  Observer observer;
  Attack attack;
  Figure advantage;
  Figure floor;
};

Row row(std::string method, Observer observer, Attack attack, double advantage, double floor) {
  return {std::move(method), observer, attack, around(advantage), around(floor)};
}

void add(std::vector<ObserverLeak>& leaks, Observer observer, AttackLeak attack) {
  auto leak = std::ranges::find(leaks, observer, &ObserverLeak::observer);
  if (leak == leaks.end()) {
    leak = leaks.insert(leak, ObserverLeak());
    leak->observer = observer;
  }
  leak->attacks.push_back(std::move(attack));
}

AttackLeak attack_leak(Attack attack, Figure advantage) {
  AttackLeak leak;
  leak.attack = attack;
  leak.advantage = std::move(advantage);
  return leak;
}

Comparison comparison(const std::vector<Row>& rows) {
  Comparison out;
  out.forgotten = {"zero"};
  for (const auto& [method, observer, attack, advantage, floor] : rows) {
    auto found = std::ranges::find(out.methods, method, &AuditedMethod::name);
    if (found == out.methods.end()) found = out.methods.insert(found, {method, {}});
    add(found->audit.leaks.forgotten, observer, attack_leak(attack, advantage));
    if (!floor.value && floor.reason.empty()) continue;
    if (!out.floor) out.floor.emplace();
    if (find(find(out.floor->forgotten, observer), attack) == nullptr)
      add(out.floor->forgotten, observer, attack_leak(attack, floor));
  }
  return out;
}

constexpr auto logits = Observer::logits;
constexpr auto probabilities = Observer::probabilities;
constexpr auto label = Observer::label;
constexpr auto adaboost = Attack::adaboost;

std::vector<Row> example() {
  return {row("naive", logits, adaboost, 0.64, 0.02),
          row("normalization", label, adaboost, 0.05, 0.03),
          row("normalization", probabilities, adaboost, 0.10, 0.02),
          row("normalization", logits, Attack::nearest_neighbours, 0.30, 0.02),
          row("normalization", logits, adaboost, 0.44, 0.02)};
}

std::vector<ObserverVerdict> judged(const std::vector<Row>& rows) {
  return judge(comparison(rows), "normalization");
}

TEST(Verdict, TakesTheStrongestAttackOfEachObserver) {
  const auto verdicts = judged(example());
  ASSERT_EQ(verdicts.size(), 3U);
  EXPECT_EQ(verdicts[0].observer, logits);
  EXPECT_EQ(verdicts[0].worst->attack, adaboost);
  EXPECT_EQ(verdicts[0].level, Level::can_tell);
  EXPECT_DOUBLE_EQ(*verdicts[0].naive->advantage.value, 0.64);
  EXPECT_EQ(verdicts[1].level, Level::faint);           // 0.10 - 0.02 < 0.1
  EXPECT_EQ(verdicts[2].level, Level::not_told_apart);  // 0.03 <= 0.05
}

// An interval that reaches both the floor and a leak that would count has shown neither.
TEST(Verdict, FewNetworksDoNotMakeAYes) {
  std::vector<Row> rows = {row("normalization", logits, adaboost, 0.12, 0.10),
                           row("normalization", label, adaboost, 0.01, 0.02)};
  rows[0].advantage.low = -0.2;
  rows[0].advantage.high = 0.48;
  const auto verdicts = judged(rows);
  EXPECT_EQ(verdicts[0].level, Level::undecided);
  EXPECT_EQ(verdicts[1].level, Level::not_told_apart);
  EXPECT_EQ(
      sentence(verdicts, "normalization"),
      "Against somebody who sees only the top-1 label: yes, as far as tested; against "
      "somebody who sees logits: not told apart, but so few networks do not rule out 74 right "
      "answers in 100 (guessing: 50).");
  EXPECT_EQ(chart(verdicts, "normalization").rows.at(0).word, "undecided: 56 in 100");
}

TEST(Verdict, SaysAgainstWhom) {
  const std::string text = sentence(judged(example()), "normalization");
  EXPECT_EQ(
      text,
      "Against somebody who sees only the top-1 label: yes, as far as tested; against somebody "
      "who sees probabilities: nearly; the best attack, AdaBoost on probabilities, rightly tells "
      "it "
      "from a retrained model in 55 of 100 cases (guessing: 50); against somebody who sees logits: "
      "no; "
      "the best attack, AdaBoost on logits, rightly tells it from a retrained model in 72 of 100 "
      "cases (guessing: 50).");
}

TEST(Verdict, WhoSeesMoreCanDoWhatWhoSeesLessCan) {
  const auto verdicts = judged({row("normalization", logits, adaboost, 0.01, 0.02),
                                row("normalization", probabilities, adaboost, 0.02, 0.02),
                                row("normalization", label, Attack::forest, 0.4, 0.02)});
  ASSERT_EQ(verdicts.size(), 3U);
  for (const ObserverVerdict& verdict : verdicts) {
    EXPECT_EQ(verdict.level, Level::can_tell) << name_of(verdict.observer);
    EXPECT_EQ(verdict.worst->attack, Attack::forest);
  }
  EXPECT_THAT(sentence(verdicts, "normalization"),
              HasSubstr("random forest (10 trees) on the top-1 label"));
}

TEST(Verdict, WithoutIntervalsItIsASketch) {
  std::vector<Row> rows = example();
  for (Row& r : rows) r.advantage.low = r.advantage.high = std::nullopt;
  EXPECT_THAT(sentence(judged(rows), "normalization"), HasSubstr("a sketch, without intervals."));
  for (Row& r : rows) r.advantage.reason = "no intervals were asked for";
  EXPECT_THAT(sentence(judged(rows), "normalization"),
              HasSubstr("a sketch, without intervals (no intervals were asked for)."));
}

TEST(Verdict, WithoutAFloorOnlyGuessingIsTheFloor) {
  std::vector<Row> rows = example();
  for (Row& r : rows) r.floor = {};
  const auto verdicts = judged(rows);
  EXPECT_EQ(verdicts[2].level, Level::faint);  // 0.03 > 0
  EXPECT_THAT(chart(verdicts, "normalization").floor_name, ::testing::IsEmpty());
}

TEST(Verdict, WhatWasNotComputedIsNotAYes) {
  const auto verdicts = judged(
      {{"normalization", logits, adaboost, Figure::missing("fewer than two models"), around(0)}});
  EXPECT_EQ(verdicts.at(0).level, Level::unknown);
  EXPECT_THAT(sentence(verdicts, "normalization"), HasSubstr("Not known"));
  EXPECT_THAT(sentence(verdicts, "normalization"), Not(HasSubstr("yes")));
  EXPECT_THAT(sentence(verdicts, "normalization"), HasSubstr("fewer than two models"));
  EXPECT_EQ(table(chart(verdicts, "normalization")).rows.at(0).at(1),
            "not computed: fewer than two models");
}

// An observer whose own attacks all failed is not cleared by those on what he could work out, but
// may be convicted by them.
TEST(Verdict, AnObserverWithoutAnAttackOfHisOwnIsNotCleared) {
  std::vector<Row> rows = {
      {"normalization", logits, adaboost, Figure::missing("too wide"), around(0)},
      row("normalization", label, adaboost, 0.01, 0.02)};
  const auto verdicts = judged(rows);
  EXPECT_EQ(verdicts.at(0).level, Level::unknown);
  EXPECT_EQ(verdicts.at(1).level, Level::not_told_apart);
  EXPECT_EQ(sentence(verdicts, "normalization"),
            "Against somebody who sees only the top-1 label: yes, as far as tested; against "
            "somebody who sees logits: not known, no attack could be computed (too wide).");
  rows[1] = row("normalization", label, adaboost, 0.5, 0.02);
  EXPECT_EQ(judged(rows).at(0).level, Level::can_tell);
}

TEST(Verdict, AMissingFloorHasItsReason) {
  std::vector<Row> rows = example();
  for (Row& r : rows) r.floor = {};
  Comparison without = comparison(rows);
  without.no_floor = "no second batch";
  EXPECT_THAT(reasons(chart(judge(without, "normalization"), "normalization")),
              ::testing::Contains(HasSubstr("no second batch")));
}

TEST(Verdict, JudgesTheWantedMethodElseNormalizationElseTheFirst) {
  const Comparison two = comparison(example());
  EXPECT_EQ(judged_method(two, "naive"), "naive");
  EXPECT_EQ(judged_method(two, "unheard of"), "normalization");
  EXPECT_EQ(judged_method(comparison({row("model", logits, adaboost, 0, 0)}), ""), "model");
}

TEST(Verdict, OfASingleDeletionNamesTheStrongestReadOut) {
  Receipt receipt;
  receipt.method = "normalization";
  receipt.forgotten = {"alice", "bob"};
  EXPECT_THAT(sentence(receipt), HasSubstr("Not known yet: alice and bob was taken out"));
  receipt.leak_checks = {{logits, "mean of the retained logits", around(0.9), around(0.53)},
                         {logits, "best linear read-out", around(0.97), around(0.947)}};
  receipt.leak_checks.push_back({label, "best linear read-out", around(0.6), around(0.61)});
  EXPECT_EQ(
      sentence(receipt),
      "One model alone cannot settle it: an input of alice and bob is recognised with AUC 0.95 "
      "from logits (0.97 had its output merely been cut off) and 0.61 from the top-1 label "
      "(0.60); 0.50 is chance, but retrained models are not at 0.50 either, and an audit with "
      "some gives that floor.");
}

TEST(Join, ReadsAsProse) {
  EXPECT_EQ(join({}), "");
  EXPECT_EQ(join({"a"}), "a");
  EXPECT_EQ(join({"a", "b", "c"}), "a, b and c");
}

}  // namespace
}  // namespace oubli::report
