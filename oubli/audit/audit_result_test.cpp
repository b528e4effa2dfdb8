#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "oubli/audit/audit.h"
#include "oubli/audit/resplit.h"
#include "oubli/audit/test_populations.h"
#include "oubli/base/error.h"

namespace oubli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::Made;
using testing::made_labels;
using testing::made_population;
using testing::made_samples;
using ::testing::StartsWith;

// A result with something of everything: missing figures, intervals and none, a floor, a probe.
AuditResult example(bool with_floor) {
  const Made made{.models = 8};
  const std::vector<std::uint32_t> labels = made_labels(made);
  Made wide = made;
  wide.all_columns = true;
  AuditInput input;
  input.seen = made_population(made, 1, "seen");
  input.unseen = made_population(made, 2, "unseen");
  if (with_floor) input.unseen2 = made_population({.models = 3}, 3, "unseen2");
  if (with_floor) input.before = made_population(wide, 4, "before");
  input.features = {{"", made_population(wide, 5, "features"), {}}};
  input.samples = made_samples(made, labels);
  input.class_names = {"a", "\"b\"", "c\n", "d"};
  const AuditOptions options{.images_forgotten = 7, .directions = 20, .bootstrap = 100, .seed = 3};
  AuditResult result = audit(input, options);
  if (with_floor) add_splits(result.leaks, input.seen, input.unseen, input.samples, options, 2);
  return result;
}

TEST(AuditResult, SurvivesTheRoundTrip) {
  for (const bool with_floor : {false, true}) {
    const json written = example(with_floor);
    const auto read = json::parse(written.dump()).get<AuditResult>();
    EXPECT_EQ(json(read).dump(), written.dump());
    EXPECT_EQ(read.floor.has_value(), with_floor);
    EXPECT_EQ(read.options.images_forgotten, 7U);
    EXPECT_EQ(read.leaks.forgotten.at(0).attacks.at(0).splits.size(), with_floor ? 2U : 0U);
    EXPECT_EQ(to_csv(read).find("_splits") != std::string::npos, with_floor);
    EXPECT_EQ(to_text(read).find("2 splits of the models") != std::string::npos, with_floor);
    EXPECT_EQ(to_csv(read), to_csv(example(with_floor)));
    EXPECT_EQ(to_text(read), to_text(example(with_floor)));
  }
}

TEST(AuditResult, FiguresSurviveTheRoundTrip) {
  const Figure whole{.value = 0.1, .low = -0.2, .high = 1.0 / 3, .reason = ""};
  for (const Figure& figure : {whole, Figure::of(0.5), Figure::of(0.5, "one model"),
                               Figure::missing("not asked for"), Figure{}}) {
    const auto read = json::parse(json(figure).dump()).get<Figure>();
    EXPECT_EQ(read.value, figure.value);
    EXPECT_EQ(read.low, figure.low);
    EXPECT_EQ(read.high, figure.high);
    EXPECT_EQ(read.reason, figure.reason);
  }
}

// The message for a document in which the value at `place` is replaced.
std::string message_with(const char* place, const json& value) {
  static const json good = example(true);
  json document = good;
  document.at(json::json_pointer(place)) = value;
  try {
    (void)document.get<AuditResult>();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "no error";
}

TEST(AuditResult, WhatIsWrongIsNamedByItsPlace) {
  EXPECT_EQ(message_with("/leaks/forgotten/1/attacks/2/advantage/low", "x"),
            "leaks.forgotten[1].attacks[2].advantage.low: string where a number is wanted");
  EXPECT_THAT(message_with("/leaks/classes/0/observers/0/observer", "ghost"),
              StartsWith("leaks.classes[0].observers[0].observer: no observer is named 'ghost'"));
  EXPECT_THAT(message_with("/floor/retained/0/attacks/0/attack", "new-attack"),
              HasSubstr("floor.retained[0].attacks[0].attack: no attack is named 'new-attack'"));
  EXPECT_THAT(message_with("/models/seen", 1e30), StartsWith("models.seen: 1e+30 where a whole"));
  EXPECT_THAT(message_with("/models/unseen", -1), StartsWith("models.unseen: -1 where a whole"));
  EXPECT_EQ(message_with("/leaks", 3), "leaks: 3 where an object is wanted");
  EXPECT_EQ(message_with("/quality/0", nullptr), "quality[0]: nothing where an object is wanted");
  EXPECT_EQ(message_with("/misclassification/0/shares", json()),
            "misclassification[0].shares: nothing where a list is wanted");
  EXPECT_EQ(message_with("/probes/0/seen", {{"mean", 1}}),
            "probes[0].seen.std: nothing where a number is wanted");
  EXPECT_EQ(message_with("/warnings", {1}), "warnings[0]: 1 where text is wanted");
  EXPECT_EQ(message_with("/forgotten", {9}), "forgotten: class 9, but there are 4 classes");
  EXPECT_THAT(message_with("/forgotten", {1, 1}), HasSubstr("not in ascending order"));
  EXPECT_EQ(message_with("/class_names", {"a"}), "class_names: 1 names for 4 classes");
  EXPECT_THROW((void)json(3).get<AuditResult>(), Error);
}

}  // namespace
}  // namespace oubli
