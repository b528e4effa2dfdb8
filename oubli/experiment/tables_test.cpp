#include "oubli/experiment/tables.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "oubli/experiment/results.h"

namespace oubli {
namespace {

using ::testing::HasSubstr;

Figure figure(double value) {
  return {.value = value, .low = value - 0.01, .high = value + 0.01, .reason = {}};
}

// An audit whose advantages are `base` for logits, a tenth of it for probabilities, a hundredth for
// labels; retained ones half of that.
AuditResult example_audit(double base) {
  const auto leaks = [](double value) {
    std::vector<ObserverLeak> result;
    double factor = 1;
    for (const Observer observer : all_values<Observer>()) {
      ObserverLeak leak;
      leak.observer = observer;
      for (const Attack attack :
           {Attack::nearest_neighbours, Attack::forest, Attack::adaboost, Attack::logistic}) {
        leak.attacks.emplace_back();
        leak.attacks.back().attack = attack;
        leak.attacks.back().advantage = figure(value * factor);
      }
      leak.ks = figure(value / 2);
      leak.ks_ones = figure(value / 4);
      result.push_back(std::move(leak));
      factor /= 10;
    }
    return result;
  };
  const MeanStd mean{0.971, 0.002};
  AuditResult audit;
  audit.leaks.forgotten = leaks(base);
  audit.leaks.retained = leaks(base / 2);
  for (const char* population : {"before", "seen", "unseen"})
    audit.quality.push_back({population, mean, mean, {}});
  audit.flips = {mean, mean, {}, "none"};
  return audit;
}

TreatmentResult treated(Treatment treatment, std::optional<MeansOf> means,
                        std::optional<AuditResult> audit) {
  return {treatment, means, {}, {}, std::move(audit)};
}

Results example_results() {
  constexpr MeansOf kTest{kAllSamples, MeansSource::test};
  constexpr MeansOf kTrain{kAllSamples, MeansSource::train};
  Results results;
  results.experiment = "mnist";
  results.class_names = {"0", "1"};
  PartResult part;
  part.hidden = 50;
  part.forgotten = {0};
  part.floor = example_audit(0.01);
  part.treatments = {treated(Method::naive, {}, example_audit(0.6)),
                     treated(Method::normalization, kTest, example_audit(0.3)),
                     treated(Method::normalization, kTrain, {})};
  results.parts = {part};
  PartResult turn;
  turn.hidden = 50;
  turn.forgotten = {1};
  turn.seen = 3;
  turn.treatments = {treated(Method::naive, {}, example_audit(0.5))};
  PartResult other = turn;
  other.forgotten = {0};
  other.treatments = {treated(Method::naive, {}, example_audit(0.3))};
  results.each_class = {turn, other};
  return results;
}

const ResultTable& table(const std::vector<ResultTable>& tables, const std::string& label) {
  for (const ResultTable& t : tables)
    if (t.published == label) return t;
  throw std::out_of_range(label);
}

TEST(Tables, PutOursBesideThePapers) {
  const auto tables = make_tables(example_results());
  const ResultTable& first = table(tables, "tab:MLP50");
  ASSERT_EQ(first.rows.size(), 4u);
  const ResultTable::Row& row = first.rows[0];
  EXPECT_EQ(row.group, "unlearned");
  EXPECT_THAT(row.keys, ::testing::ElementsAre("naive", "50", "-"));
  EXPECT_EQ(row.cells[0].paper, 0.593);
  EXPECT_EQ(row.cells[0].ours.value, 0.6);
  EXPECT_EQ(row.cells[0].floor, 0.01);
  EXPECT_DOUBLE_EQ(*row.cells[0].ours.low, 0.59);
  // Remaining classes, normalization.
  EXPECT_EQ(first.rows[3].cells[2].paper, 0.095);
  EXPECT_EQ(first.rows[3].cells[2].ours.value, 0.15);
  // Nothing published is claimed for observers that the paper does not have.
  for (const ResultTable::Cell& cell : row.cells)
    EXPECT_EQ(cell.paper.has_value(), cell.observer == Observer::logits);
}

TEST(Tables, SayWhyAnIntervalIsMissing) {
  Results results = example_results();
  results.parts[0].treatments[0].audit->leaks.forgotten[0].ks = Figure::of(0.3, "2 and 2 models");
  const auto tables = make_tables(results);
  const ResultTable::Cell& cell = table(tables, "tab:ks").rows[0].cells[0];
  EXPECT_EQ(cell.ours.value, 0.3);
  EXPECT_FALSE(cell.ours.low);
  EXPECT_EQ(cell.ours.reason, "2 and 2 models");
}

TEST(Tables, AccuracyIsInPercentAndOfTheRightNetworks) {
  const auto tables = make_tables(example_results());
  const ResultTable& t = table(tables, "tab:app-MNIST-adv");
  EXPECT_EQ(t.rows[0].keys[0], "before");
  EXPECT_DOUBLE_EQ(*t.rows[0].cells[0].ours.value, 97.1);
  EXPECT_EQ(t.rows[0].cells[0].paper, 97.1);
  EXPECT_EQ(t.rows[0].cells[0].paper_sd, 0.19);
  // With the paper's digits, not with ours.
  const TextTable text = to_table(t);
  EXPECT_THAT(text.rows.at(0), ::testing::ElementsAre("", "before", "50", "-", "accuracy",
                                                      "97.1 ± 0.19", "97.10 ± 0.20"));
}

TEST(Tables, MeansOverNetworksHaveTheIntervalOfStudent) {
  Results results = example_results();
  results.parts[0].seen = 3;
  results.parts[0].unseen = 1;
  const auto tables = make_tables(results);
  const ResultTable& t = table(tables, "tab:app-MNIST-adv");
  // 4.30265 is the upper 2.5 % point of Student's t with two degrees of freedom.
  const ResultTable::Cell& before = t.rows[0].cells[0];
  EXPECT_NEAR(*before.ours.high - *before.ours.value, 4.30265 * 0.2 / std::sqrt(3.0), 1e-4);
  EXPECT_NEAR(*before.ours.value - *before.ours.low, 4.30265 * 0.2 / std::sqrt(3.0), 1e-4);
  EXPECT_EQ(t.rows[1].keys[0], "retrained");
  EXPECT_FALSE(t.rows[1].cells[0].ours.low) << "one network has no spread";
}

TEST(Tables, CountPublishedFiguresInOurIntervals) {
  const auto cell = [](double low, double high, std::optional<double> paper, unsigned digits) {
    ResultTable::Cell result{.measure = "NN", .paper = paper, .paper_digits = digits};
    result.ours = {.value = (low + high) / 2, .low = low, .high = high, .reason = {}};
    return result;
  };
  ResultTable t;
  t.rows = {{"unlearned",
             {},
             {cell(0.1, 0.2, 0.15, 3), cell(0.1, 0.2, 0.25, 3), cell(0.1, 0.2, std::nullopt, 3),
              // 97.1 as printed may be 97.14: with one digit it is inside, with three it is not.
              cell(97.14, 97.2, 97.1, 1), cell(97.14, 97.2, 97.1, 3)}}};
  EXPECT_EQ(agreement_of(t), "2 of 4 published figures lie in our intervals.");
  EXPECT_EQ(agreement_of({}), "");
}

TEST(Tables, OnlyTheExperimentsRowsOfASharedTable) {
  const auto tables = make_tables(example_results());
  const ResultTable& ks = table(tables, "tab:ks");
  EXPECT_EQ(ks.rows.size(), 6u);
  EXPECT_EQ(ks.rows[0].cells[0].paper, 0.184);
  EXPECT_EQ(ks.rows[2].keys[0], "baseline");
  EXPECT_THROW((void)table(tables, "tab:CNN256"), std::out_of_range);
}

TEST(Tables, WhatIsMissingHasAReason) {
  bool found = false;
  for (const ResultTable& t : make_tables(example_results())) {
    for (const ResultTable::Row& row : t.rows) {
      if (row.keys[2] != "all, training data") continue;
      for (const ResultTable::Cell& cell : row.cells) {
        found = true;
        EXPECT_FALSE(cell.ours.value);
        EXPECT_FALSE(cell.ours.reason.empty());
      }
    }
  }
  EXPECT_TRUE(found);
}

TEST(Tables, PrintObserversSideBySide) {
  const auto tables = make_tables(example_results());
  const std::string text = to_text(tables);
  EXPECT_THAT(text, HasSubstr("Table I (main text)"));
  EXPECT_THAT(text, HasSubstr("probabilities"));
  EXPECT_THAT(text, HasSubstr("Each class forgotten in turn"));
  // The mean over the classes comes last.
  const auto& turns = *std::ranges::find(
      tables, "Each class forgotten in turn, inputs of that class", &ResultTable::title);
  ASSERT_EQ(turns.rows.size(), 3U);
  EXPECT_EQ(turns.rows[2].keys, (std::vector<std::string>{"mean", "naive", "3"}));
  EXPECT_NEAR(turns.rows[2].cells[0].ours.value.value(), 0.4, 1e-12);
  const std::string markdown = to_markdown(tables);
  EXPECT_THAT(markdown, HasSubstr("| 0.593 | 0.600 | 0.590 to 0.610 | 0.010 | 0.060 | 0.006 |"));
}

TEST(Tables, FiguresThatStandAboveAreLeftOut) {
  const auto tables = make_tables(example_results());
  const auto lines = [](const std::vector<ResultTable>& of) {
    std::multiset<std::string> out;
    for (const ResultTable& t : of)
      for (const ResultTable::Row& row : t.rows)
        for (const ResultTable::Cell& cell : row.cells)
          if (cell.ours.value)
            out.insert(fmt::format("{}|{}|{}|{}|{}", row.group, fmt::join(row.keys, ","),
                                   cell.measure, name_of(cell.observer), *cell.ours.value));
    return out;
  };
  const auto all = lines(tables), left = lines(without_repeats(tables));
  // No figure is lost; figures of different tables are there once.
  EXPECT_EQ(std::set(all.begin(), all.end()), std::set(left.begin(), left.end()));
  EXPECT_LT(left.size(), all.size());
  EXPECT_EQ(lines(without_repeats(without_repeats(tables))), left);
}

}  // namespace
}  // namespace oubli
