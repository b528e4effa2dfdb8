#include "oubli/report/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace oubli::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Level = ObserverVerdict::Level;

Measured around(double value) { return {value, value - 0.02, value + 0.02, ""}; }

Leak leak(std::string method, std::string observer, std::string attack, double advantage,
          double floor) {
  return {.method = std::move(method),
          .observer = std::move(observer),
          .attack = std::move(attack),
          .forgotten = around(advantage),
          .forgotten_floor = around(floor),
          .retained = {},
          .retained_floor = {}};
}

Audit example() {
  Audit audit;
  audit.forgotten = {"zero"};
  audit.leaks = {leak("naive", "logits", "AdaBoost", 0.64, 0.02),
                 leak("normalization", "label", "AdaBoost", 0.05, 0.03),
                 leak("normalization", "probabilities", "AdaBoost", 0.10, 0.02),
                 leak("normalization", "logits", "nearest neighbours", 0.30, 0.02),
                 leak("normalization", "logits", "AdaBoost", 0.44, 0.02)};
  return audit;
}

TEST(Verdict, TakesTheStrongestAttackOfEachObserver) {
  const Audit audit = example();
  const auto verdicts = judge(audit, "normalization");
  ASSERT_EQ(verdicts.size(), 3U);
  EXPECT_EQ(verdicts[0].observer, "logits");
  EXPECT_EQ(verdicts[0].worst->attack, "AdaBoost");
  EXPECT_EQ(verdicts[0].level, Level::can_tell);
  EXPECT_DOUBLE_EQ(*verdicts[0].naive->forgotten.value, 0.64);
  EXPECT_EQ(verdicts[1].level, Level::faint);           // 0.10 - 0.02 < 0.1
  EXPECT_EQ(verdicts[2].level, Level::not_told_apart);  // 0.03 <= 0.05
}

// An interval that reaches both the floor and a leak that would count has shown neither.
TEST(Verdict, FewNetworksDoNotMakeAYes) {
  Audit audit;
  audit.leaks = {leak("normalization", "logits", "AdaBoost", 0.12, 0.10),
                 leak("normalization", "label", "AdaBoost", 0.01, 0.02)};
  audit.leaks[0].forgotten.low = -0.2;
  audit.leaks[0].forgotten.high = 0.48;
  const auto verdicts = judge(audit, "normalization");
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
  const Audit audit = example();
  const std::string text = sentence(judge(audit, "normalization"), "normalization");
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
  Audit audit;
  audit.leaks = {leak("normalization", "logits", "AdaBoost", 0.01, 0.02),
                 leak("normalization", "probabilities", "AdaBoost", 0.02, 0.02),
                 leak("normalization", "label", "forest", 0.4, 0.02)};
  const auto verdicts = judge(audit, "normalization");
  for (const ObserverVerdict& verdict : verdicts) {
    EXPECT_EQ(verdict.level, Level::can_tell) << verdict.observer;
    EXPECT_EQ(verdict.worst->attack, "forest");
  }
  EXPECT_THAT(sentence(verdicts, "normalization"), HasSubstr("forest on the top-1 label"));
}

TEST(Verdict, WithoutIntervalsItIsASketch) {
  Audit audit = example();
  for (Leak& l : audit.leaks) l.forgotten.low = l.forgotten.high = std::nullopt;
  EXPECT_THAT(sentence(judge(audit, "normalization"), "normalization"),
              HasSubstr("a sketch, without intervals."));
  for (Leak& l : audit.leaks) l.forgotten.reason = "no intervals were asked for";
  EXPECT_THAT(sentence(judge(audit, "normalization"), "normalization"),
              HasSubstr("a sketch, without intervals (no intervals were asked for)."));
}

TEST(Verdict, WithoutAFloorOnlyGuessingIsTheFloor) {
  Audit audit = example();
  for (Leak& l : audit.leaks) l.forgotten_floor = {};
  const auto verdicts = judge(audit, "normalization");
  EXPECT_EQ(verdicts[2].level, Level::faint);  // 0.03 > 0
  EXPECT_THAT(chart(verdicts, "normalization").floor_name, ::testing::IsEmpty());
}

TEST(Verdict, WhatWasNotComputedIsNotAYes) {
  Audit audit;
  Leak l = leak("normalization", "logits", "AdaBoost", 0, 0);
  l.forgotten = {std::nullopt, std::nullopt, std::nullopt, "fewer than two models"};
  audit.leaks = {l};
  const auto verdicts = judge(audit, "normalization");
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
  Audit audit;
  Leak l = leak("normalization", "logits", "AdaBoost", 0, 0);
  l.forgotten = {std::nullopt, std::nullopt, std::nullopt, "too wide"};
  audit.leaks = {l, leak("normalization", "label", "AdaBoost", 0.01, 0.02)};
  auto verdicts = judge(audit, "normalization");
  EXPECT_EQ(verdicts.at(0).level, Level::unknown);
  EXPECT_EQ(verdicts.at(1).level, Level::not_told_apart);
  EXPECT_EQ(sentence(verdicts, "normalization"),
            "Against somebody who sees only the top-1 label: yes, as far as tested; against "
            "somebody who sees logits: not known, no attack could be computed (too wide).");
  audit.leaks[1] = leak("normalization", "label", "AdaBoost", 0.5, 0.02);
  EXPECT_EQ(judge(audit, "normalization").at(0).level, Level::can_tell);
}

TEST(Verdict, AMissingFloorHasItsReason) {
  Audit audit = example();
  for (Leak& l : audit.leaks)
    l.forgotten_floor = {std::nullopt, std::nullopt, std::nullopt, "no second batch"};
  EXPECT_THAT(reasons(chart(judge(audit, "normalization"), "normalization")),
              ::testing::Contains(HasSubstr("no second batch")));
}

TEST(Verdict, JudgesTheWantedMethodElseNormalizationElseTheFirst) {
  const Audit audit = example();
  EXPECT_EQ(judged_method(audit, "naive"), "naive");
  EXPECT_EQ(judged_method(audit, "unheard of"), "normalization");
  Audit other;
  other.leaks = {leak("model", "logits", "AdaBoost", 0, 0)};
  EXPECT_EQ(judged_method(other, ""), "model");
}

TEST(Verdict, OfASingleDeletionNamesTheStrongestReadOut) {
  Receipt receipt;
  receipt.method = "normalization";
  receipt.forgotten = {"alice", "bob"};
  EXPECT_THAT(sentence(receipt), HasSubstr("Not known yet: alice and bob was taken out"));
  receipt.leak_checks = {{"logits", "mean of the retained logits", around(0.9), around(0.53)},
                         {"logits", "best linear read-out", around(0.97), around(0.947)}};
  receipt.leak_checks.push_back({"label", "best linear read-out", around(0.6), around(0.61)});
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
