#include "oubli/experiment/published.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace oubli {
namespace {

const PublishedTable& table(const std::string& label) {
  const auto& tables = published().tables;
  const auto found =
      std::ranges::find_if(tables, [&](const PublishedTable& t) { return t.label == label; });
  if (found == tables.end()) throw std::out_of_range(label);
  return *found;
}

double cell(const std::string& label, const std::string& group, const std::string& method,
            std::size_t hidden, const std::string& samples, const std::string& value,
            const std::string& experiment = "cifar10") {
  for (const PublishedRow& row : table(label).rows) {
    if (row.group == group && row.method == method && row.hidden == hidden &&
        row.samples == samples && row.experiment == experiment) {
      return row.values.at(value);
    }
  }
  throw std::out_of_range(label + " " + group + " " + method);
}

// The paper has eleven tables.
TEST(Published, HasEveryTable) {
  const std::vector<std::pair<std::string, std::size_t>> kRows = {{"tab:MLP50", 4},
                                                                  {"tab:CNN256", 8},
                                                                  {"tab:RES", 4},
                                                                  {"tab:sample_size", 8},
                                                                  {"tab:hidden_units", 12},
                                                                  {"tab:label_flipping", 4},
                                                                  {"tab:ks", 12},
                                                                  {"tab:app-MNIST-acc", 8},
                                                                  {"tab:app-MNIST-adv", 6},
                                                                  {"tab:app-CIFAR10-adv", 36},
                                                                  {"tab:app-CIFAR10-acc", 24}};
  ASSERT_EQ(published().tables.size(), kRows.size());
  for (const auto& [label, rows] : kRows) EXPECT_EQ(table(label).rows.size(), rows) << label;
}

TEST(Published, HoldsThePapersCells) {
  EXPECT_EQ(cell("tab:MLP50", "unlearned", "naive", 50, "", "NN", "mnist"), 0.593);
  EXPECT_EQ(cell("tab:CNN256", "remaining", "zeroing", 256, "all", "AB"), 0.219);
  EXPECT_EQ(cell("tab:RES", "unlearned", "normalization", 256, "all", "RF", "faces"), 0.454);
  EXPECT_EQ(cell("tab:sample_size", "unlearned", "normalization", 256, "10", "NN"), 0.193);
  EXPECT_EQ(cell("tab:label_flipping", "", "randomization", 256, "all", "unlearned"), 48.8);
  EXPECT_EQ(cell("tab:ks", "unlearned", "normalization", 50, "all", "ks", "mnist"), 0.1);
  EXPECT_EQ(cell("tab:app-CIFAR10-acc", "", "before", 1024, "", "accuracy"), 69.7);
  EXPECT_EQ(cell("tab:app-CIFAR10-acc", "", "zeroing", 64, "all", "accuracy sd"), 1.76);
}

TEST(Published, KeepsBothWhereMainTextAndAppendixDiffer) {
  EXPECT_EQ(cell("tab:hidden_units", "unlearned", "naive", 64, "", "RF"), 0.321);
  EXPECT_EQ(cell("tab:app-CIFAR10-adv", "unlearned", "naive", 64, "", "RF"), 0.331);
  EXPECT_EQ(cell("tab:hidden_units", "remaining", "normalization", 1024, "all", "AB"), 0.129);
  EXPECT_EQ(cell("tab:app-CIFAR10-adv", "remaining", "normalization", 1024, "all", "AB"), 0.118);
}

TEST(Published, ValuesArePlausible) {
  const std::set<std::string> kMethods = {"before",        "retrained", "naive",   "normalization",
                                          "randomization", "zeroing",   "baseline"};
  for (const PublishedTable& t : published().tables) {
    EXPECT_FALSE(t.command.empty()) << t.label;
    for (const PublishedRow& row : t.rows) {
      EXPECT_TRUE(kMethods.contains(row.method)) << row.method;
      EXPECT_FALSE(row.experiment.empty()) << t.label;
      EXPECT_FALSE(row.values.empty()) << t.label << row.method;
      for (const auto& [name, value] : row.values) {
        EXPECT_GE(value, 0.0);
        EXPECT_LE(value, t.kind == "advantage" || t.kind == "ks" ? 1.0 : 100.0) << t.label << name;
      }
    }
  }
}

}  // namespace
}  // namespace oubli
