#include "oubli/experiment/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "oubli/base/error.h"
#include "oubli/experiment/audit_task.h"
#include "oubli/experiment/tables.h"

namespace oubli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

AttackLeak attack_leak(Attack attack, Figure advantage) {
  AttackLeak leak;
  leak.attack = attack;
  leak.advantage = std::move(advantage);
  return leak;
}

AuditResult example_audit() {
  AuditResult audit;
  audit.models_seen = audit.models_unseen = 3;
  audit.classes = 2;
  audit.forgotten = {1};
  audit.class_names = {"a", "b"};
  ObserverLeak leak;
  leak.attacks = {
      attack_leak(Attack::forest, {.value = 0.1, .low = 0.05, .high = 1.0 / 3, .reason = {}})};
  leak.attacks[0].splits = {0.1, 0.2};
  leak.attacks[0].over_splits = Figure::of(0.15, "3 and 3 test networks");
  leak.ks = Figure::of(0.25, "too few");
  leak.ks_ones = leak.ks_largest = Figure::missing("not asked for");
  audit.leaks.forgotten = {leak};
  audit.leaks.classes = {{.label = 1, .forgotten = true, .observers = {leak}}};
  audit.quality = {{"seen", MeanStd{0.9, 0.01}, {}, "no loss"}};
  audit.floor_reason = "none";
  return audit;
}

Results example_results() {
  Results results;
  results.experiment = "mnist";
  results.data_set = "mnist";
  results.architecture = "mlp";
  results.seed = 3;
  results.class_names = {"a", "b"};
  results.config = {.experiment = "mnist",
                    .seed = 3,
                    .forget = {1},
                    .parts = {{50, 3, 3}},
                    .samples = {10, kAllSamples}};
  results.failed = {{"mlp50-seen-002", "out of memory"}};
  PartResult part;
  part.hidden = 50;
  part.forgotten = {1};
  part.seen = part.unseen = 3;
  part.second = 2;
  part.floor = example_audit();
  part.treatments.push_back({Method::naive, {}, {}, {}, example_audit()});
  part.treatments.push_back({Method::normalization,
                             MeansOf{10, MeansSource::train},
                             {{"mlp50-seen-001", "A is singular"}},
                             {},
                             example_audit()});
  part.treatments.push_back({Refit{}, {}, {}, "one network", {}});
  results.parts = {part};
  part.floor.reset();
  part.second.reset();
  results.each_class = {part};
  results.tables = make_tables(results);
  return results;
}

TEST(Results, SurviveTheRoundTrip) {
  const json written = example_results();
  const auto read = json::parse(written.dump()).get<Results>();
  EXPECT_EQ(json(read).dump(), written.dump());
  EXPECT_EQ(to_text(read.tables), to_text(example_results().tables));
  EXPECT_EQ(read.parts[0].treatments[1].treatment, Treatment(Method::normalization));
  EXPECT_EQ(read.parts[0].treatments[1].means, (MeansOf{10, MeansSource::train}));
  EXPECT_EQ(read.parts[0].treatments[2].treatment, Treatment(Refit{}));
}

std::string message_with(const char* place, const json& value) {
  json document = example_results();
  document.at(json::json_pointer(place)) = value;
  try {
    (void)document.get<Results>();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "no error";
}

TEST(Results, WhatIsWrongIsNamedByItsPlace) {
  EXPECT_EQ(message_with("/parts/0/methods/1/audit/leaks/forgotten/0/ks/value", true),
            "parts[0].methods[1].audit.leaks.forgotten[0].ks.value: boolean where a number is "
            "wanted");
  EXPECT_EQ(message_with("/parts/0/methods/0/method", "guessing"),
            "parts[0].methods[0].method: there is no method 'guessing'");
  EXPECT_THAT(message_with("/parts/0/methods/1/samples", "many"),
              HasSubstr("parts[0].methods[1].samples: samples 'many': wanted a whole number"));
  EXPECT_THAT(message_with("/parts/0/methods/1/means_from", "memory"),
              HasSubstr("parts[0].methods[1].means_from: "));
  EXPECT_THAT(message_with("/each_class/0/models/seen", 2.5), HasSubstr("each_class[0].models"));
  EXPECT_THAT(message_with("/config/parts/0/hidden", "x"), HasSubstr("config.parts[0].hidden: "));
  EXPECT_THAT(message_with("/tables/0/rows/0/cells/0/observer", "ghost"),
              HasSubstr("tables[0].rows[0].cells[0].observer: no observer is named 'ghost'"));
  EXPECT_EQ(message_with("/tables/0/keys", 99), "tables[0].keys: 99 of 12 columns");
  EXPECT_EQ(message_with("/tables/0/rows/1/keys", {"naive"}),
            "tables[0].rows[1].keys: 1 of them, wanted 3");
  EXPECT_EQ(message_with("/parts/0/methods/2/method", "naive"),
            "parts[0].methods[2]: naive is there twice");
  EXPECT_EQ(message_with("/failed", 1), "failed: 1 where a list is wanted");
}

TEST(AuditTasks, AreValuesWithTheNamesOfTheirFiles) {
  RunConfig config = example_results().config;
  config.each_class = 2;
  std::vector<std::string> names;
  for (const AuditTask& task : audit_tasks_of(config)) names.push_back(task.name);
  ASSERT_EQ(names.size(), 8U + 20U);
  EXPECT_THAT(std::vector(names.begin(), names.begin() + 8),
              ::testing::ElementsAre(
                  "mlp50-1-floor", "mlp50-1-naive", "mlp50-1-normalization-10-test",
                  "mlp50-1-normalization-all-test", "mlp50-1-normalization-all-train",
                  "mlp50-1-randomization-all-test", "mlp50-1-zeroing-all-test", "mlp50-1-refit"));
  EXPECT_EQ(names[8], "each-mlp50-0-naive");
  EXPECT_EQ(names[9], "each-mlp50-0-normalization-all-test");
}

TEST(Treatments, GoByTheirNames) {
  for (const Treatment treatment : {Treatment(Method::naive), Treatment(Method::zeroing),
                                    Treatment(Refit{}), Treatment(Floor{})})
    EXPECT_EQ(treatment_of(name_of(treatment)), treatment);
  EXPECT_THROW((void)treatment_of("guessing"), Error);
}

}  // namespace
}  // namespace oubli
