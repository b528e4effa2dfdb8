#include "oubli/experiment/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "oubli/experiment/results.h"

namespace oubli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json figure(double value) {
  return {{"value", value}, {"low", value - 0.01}, {"high", value + 0.01}};
}

// An audit whose advantages are `base` for logits, a tenth of it for the others; retained ones
// half of that.
json audit_json(double base) {
  const auto leaks = [](double value) {
    json result = json::array();
    for (const auto& [observer, factor] :
         {std::pair{"logits", 1.0}, {"probabilities", 0.1}, {"label", 0.01}}) {
      json attacks = json::array();
      for (const char* attack : {"nearest-neighbours", "forest", "adaboost", "logistic"}) {
        attacks.push_back({{"attack", attack}, {"advantage", figure(value * factor)}});
      }
      result.push_back({{"observer", observer},
                        {"attacks", attacks},
                        {"ks", figure(value / 2)},
                        {"ks_ones", figure(value / 4)}});
    }
    return result;
  };
  const json mean = {{"mean", 0.971}, {"std", 0.002}};
  return {
      {"leaks", {{"forgotten", leaks(base)}, {"retained", leaks(base / 2)}}},
      {"quality",
       {{{"population", "before"}, {"accuracy", mean}, {"loss", mean}},
        {{"population", "seen"}, {"accuracy", mean}, {"loss", mean}},
        {{"population", "unseen"}, {"accuracy", mean}, {"loss", mean}}}},
      {"flips", {{"all", mean}, {"forgotten", mean}, {"correct", nullptr}, {"reason", "none"}}}};
}

json results_json() {
  json methods = json::array();
  methods.push_back({{"method", "naive"}, {"audit", audit_json(0.6)}});
  methods.push_back({{"method", "normalization"},
                     {"samples", "all"},
                     {"means_from", "test"},
                     {"audit", audit_json(0.3)}});
  methods.push_back({{"method", "normalization"},
                     {"samples", "all"},
                     {"means_from", "train"},
                     {"audit", nullptr}});
  return {
      {"experiment", "mnist"},
      {"class_names", {"0", "1"}},
      {"parts",
       {{{"hidden", 50}, {"forgotten", {0}}, {"floor", audit_json(0.01)}, {"methods", methods}}}},
      {"each_class",
       {{{"hidden", 50},
         {"forgotten", {1}},
         {"models", {{"seen", 3}}},
         {"methods", {{{"method", "naive"}, {"audit", audit_json(0.5)}}}}}}}};
}

const json& table(const json& tables, const std::string& label) {
  for (const json& t : tables) {
    if (t.at("published") == label) return t;
  }
  throw std::out_of_range(label);
}

TEST(Tables, PutOursBesideThePapers) {
  const json tables = make_tables(results_json());
  const json& first = table(tables, "tab:MLP50");
  ASSERT_EQ(first.at("rows").size(), 4u);
  const json& row = first.at("rows")[0];
  EXPECT_EQ(row.at("group"), "unlearned");
  EXPECT_EQ(row.at("keys"), json({"naive", "50", "-"}));
  const json& cell = row.at("cells")[0];
  EXPECT_EQ(cell.at("paper"), 0.593);
  EXPECT_EQ(cell.at("ours"), 0.6);
  EXPECT_EQ(cell.at("floor"), 0.01);
  EXPECT_DOUBLE_EQ(cell.at("low"), 0.59);
  // Remaining classes, normalization.
  EXPECT_EQ(first.at("rows")[3].at("cells")[2].at("paper"), 0.095);
  EXPECT_EQ(first.at("rows")[3].at("cells")[2].at("ours"), 0.15);
  // Nothing published is claimed for observers that the paper does not have.
  for (const json& c : row.at("cells")) {
    EXPECT_EQ(c.contains("paper"), c.at("observer") == "logits");
  }
}

TEST(Tables, SayWhyAnIntervalIsMissing) {
  json results = results_json();
  results["parts"][0]["methods"][0]["audit"]["leaks"]["forgotten"][0]["ks"] = {
      {"value", 0.3}, {"interval_reason", "2 and 2 models"}};
  const json tables = make_tables(results);
  const json& cell = table(tables, "tab:ks").at("rows")[0].at("cells")[0];
  EXPECT_EQ(cell.at("ours"), 0.3);
  EXPECT_FALSE(cell.contains("low"));
  EXPECT_EQ(cell.at("interval_reason"), "2 and 2 models");
}

TEST(Tables, AccuracyIsInPercentAndOfTheRightNetworks) {
  const json tables = make_tables(results_json());
  const json& t = table(tables, "tab:app-MNIST-adv");
  EXPECT_EQ(t.at("rows")[0].at("keys")[0], "before");
  EXPECT_DOUBLE_EQ(t.at("rows")[0].at("cells")[0].at("ours"), 97.1);
  EXPECT_EQ(t.at("rows")[0].at("cells")[0].at("paper"), 97.1);
  EXPECT_EQ(t.at("rows")[0].at("cells")[0].at("paper_sd"), 0.19);
}

TEST(Tables, OnlyTheExperimentsRowsOfASharedTable) {
  const json tables = make_tables(results_json());
  const json& ks = table(tables, "tab:ks");
  EXPECT_EQ(ks.at("rows").size(), 6u);
  EXPECT_EQ(ks.at("rows")[0].at("cells")[0].at("paper"), 0.184);
  EXPECT_EQ(ks.at("rows")[2].at("keys")[0], "baseline");
  EXPECT_THROW((void)table(tables, "tab:CNN256"), std::out_of_range);
}

TEST(Tables, WhatIsMissingHasAReason) {
  const json tables = make_tables(results_json());
  bool found = false;
  for (const json& t : tables) {
    for (const json& row : t.at("rows")) {
      if (row.at("keys")[2] != "all, training data") continue;
      for (const json& cell : row.at("cells")) {
        found = true;
        EXPECT_FALSE(cell.contains("ours"));
        EXPECT_FALSE(cell.at("reason").get<std::string>().empty());
      }
    }
  }
  EXPECT_TRUE(found);
}

TEST(Tables, PrintObserversSideBySide) {
  json results = results_json();
  results["tables"] = make_tables(results);
  const std::string text = tables_as_text(results);
  EXPECT_THAT(text, HasSubstr("Table I (main text)"));
  EXPECT_THAT(text, HasSubstr("probabilities"));
  EXPECT_THAT(text, HasSubstr("Each class forgotten in turn"));
  const std::string markdown = tables_as_markdown(results);
  EXPECT_THAT(markdown, HasSubstr("| 0.593 | 0.600 | 0.590 to 0.610 | 0.010 | 0.060 | 0.006 |"));
}

}  // namespace
}  // namespace oubli
