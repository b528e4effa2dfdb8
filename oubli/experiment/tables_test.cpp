#include "oubli/experiment/tables.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "oubli/audit/bootstrap.h"
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
  EXPECT_EQ(agreement_of(t),
            "2 of 4 published figures lie in our intervals; outside: NN unlearned, NN unlearned.");
  t.rows[0].keys = {"naive", "50", "-"};
  t.rows[0].cells.pop_back();
  EXPECT_EQ(agreement_of(t),
            "2 of 3 published figures lie in our intervals; outside: NN unlearned naive 50.");
  EXPECT_EQ(agreement_of({}), "");
}

// Ours of 100 networks is uncertain by 1.984 * 0.2 / 10 = 0.0397, the difference to a mean of 100
// networks of the paper's 0.19 by 1.972 * sqrt(0.2^2 + 0.19^2) / 10 = 0.0544; 97.1 as printed may
// be 97.1499. So ours may lie at 97.2, beyond our own interval, and not at 97.21.
TEST(Tables, PublishedMeansAreUncertainToo) {
  Results results = example_results();
  results.parts[0].seen = results.parts[0].unseen = 100;
  const auto before = [&](double accuracy) {
    results.parts[0].treatments[0].audit->quality[0].accuracy = MeanStd{accuracy / 100, 0.002};
    return table(make_tables(results), "tab:app-MNIST-adv").rows[0].cells[0];
  };
  const ResultTable::Cell near = before(97.2);
  EXPECT_NEAR(*near.within, 1.972 * std::hypot(0.2, 0.19) / 10, 1e-4);
  EXPECT_GT(*near.ours.low - 0.05, 97.1);
  EXPECT_EQ(agrees(near), true);
  EXPECT_EQ(agrees(before(97.21)), false);
}

// What an older run does not have is said to be missing.
TEST(Tables, SplitsStandBesideTheFirst) {
  Results results = example_results();
  const ResultTable without = table(make_tables(results), "tab:MLP50");
  EXPECT_THAT(without.notes, ::testing::Contains(HasSubstr("was not measured (--splits)")));
  EXPECT_THAT(to_text(std::array{without}), ::testing::Not(HasSubstr("mean of splits")));
  AttackLeak& attack = results.parts[0].treatments[0].audit->leaks.forgotten[0].attacks[0];
  attack.splits = {0.6, 0.58};
  attack.over_splits = {.value = 0.59, .low = 0.5, .high = 0.5924, .reason = {}};
  const ResultTable with = table(make_tables(results), "tab:MLP50");
  EXPECT_EQ(with.rows[0].cells[0].ours.value, 0.6);
  EXPECT_EQ(with.rows[0].cells[0].over_splits.value, 0.59);
  EXPECT_EQ(agrees_over_splits(with.rows[0].cells[0]), false);  // 0.593
  EXPECT_FALSE(agrees_over_splits(with.rows[0].cells[1]));
  EXPECT_THAT(agreement_of(with), HasSubstr("0 of 1 published figures lie in those that include "
                                            "the attacks' training networks; outside: NN "
                                            "unlearned naive 50."));
  EXPECT_THAT(to_markdown(std::array{with}),
              HasSubstr("| 0.593 | 0.600 | 0.590 to 0.610 | 0.590 | 0.500 to 0.592 | 0.010 |"));
}

// Where the paper prints no spread, its networks are taken to spread as ours do.
TEST(Tables, LabelsOfThePaperSpreadAsOurs) {
  Results results = example_results();
  results.experiment = "cifar10";
  PartResult& part = results.parts[0];
  part.hidden = 256;
  part.seen = 60;
  part.treatments.push_back(
      treated(Method::zeroing, MeansOf{kAllSamples, MeansSource::test}, example_audit(0.3)));
  part.treatments.back().audit->flips.all = MeanStd{0.183, 0.02};
  const ResultTable flips = table(make_tables(results), "tab:label_flipping");
  const auto& row = *std::ranges::find_if(
      flips.rows, [](const ResultTable::Row& r) { return r.keys[0] == "zeroing"; });
  EXPECT_EQ(row.cells[0].paper, 18.3);
  EXPECT_FALSE(row.cells[0].paper_sd);
  EXPECT_NEAR(*row.cells[0].within, welch_half_width(4.0 / 60, 60, 4.0 / 100, 100), 1e-12);
  EXPECT_EQ(agrees(row.cells[0]), true);
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

// What was made from training data has rows, and a mean, of its own.
TEST(Tables, TrainingDataHaveRowsOfTheirOwnForEachClass) {
  Results results = example_results();
  for (PartResult& turn : results.each_class)
    for (const auto& [source, base] :
         {std::pair{MeansSource::test, 0.2}, std::pair{MeansSource::train, 0.1}})
      turn.treatments.push_back(
          treated(Explained{0.07}, MeansOf{kAllSamples, source}, example_audit(base)));
  const auto tables = make_tables(results);
  const auto& turns = *std::ranges::find(
      tables, "Each class forgotten in turn, inputs of that class", &ResultTable::title);
  ASSERT_EQ(turns.rows.size(), 9U);
  EXPECT_EQ(turns.rows[7].keys, (std::vector<std::string>{"mean", "explained-0.07", "3"}));
  EXPECT_EQ(turns.rows[8].keys,
            (std::vector<std::string>{"mean", "explained-0.07, training data", "3"}));
  EXPECT_NEAR(turns.rows[7].cells[0].ours.value.value(), 0.2, 1e-12);
  EXPECT_NEAR(turns.rows[8].cells[0].ours.value.value(), 0.1, 1e-12);
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
