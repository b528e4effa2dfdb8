#include "oubli/audit/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace oubli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Figure between(double low, double high) {
  Figure figure = Figure::of((low + high) / 2);
  figure.low = low;
  figure.high = high;
  return figure;
}

TEST(Gate, ComparesTheIntervalWithTheLimit) {
  EXPECT_EQ(gate(between(-0.1, 0.1), 0.1), Gate::passed);
  EXPECT_EQ(gate(between(0.0, 0.11), 0.1), Gate::undecided);
  EXPECT_EQ(gate(between(0.1, 0.2), 0.1), Gate::undecided);
  EXPECT_EQ(gate(between(0.11, 0.2), 0.1), Gate::failed);
  EXPECT_EQ(gate(Figure::of(0.05), 0.1), Gate::undecided);  // no interval decides nothing
  EXPECT_EQ(gate(Figure(), 0.1), Gate::undecided);
}

TEST(Gate, AStatementHasOneTestPerNumberOfAnswersAndOneOverAll) {
  AuditResult result;
  result.classes = 10;
  result.forgotten = {3};
  result.class_names = {"zero", "one", "two", "Alice", "4", "5", "6", "7", "8", "9"};
  result.verdict.outcome = Outcome::told_apart;
  result.verdict.with_floor = true;
  result.verdict.excess = between(0.2, 0.6);
  VerdictPart one, ten, hundred;
  one.excess = between(-0.02, 0.04);
  ten.answers = 10;
  ten.excess = between(0.05, 0.3);
  hundred.answers = 100;
  hundred.excess = between(0.2, 0.6);
  result.verdict.parts = {one, ten, hundred};

  const std::string digest(64, 'a'), of_array(64, 'b');
  const Statement made =
      audit_statement({"new.onnx", digest}, result, 0.1, {{"seen.npy", of_array}});
  EXPECT_EQ(made.predicate_type, kTestResultType);
  ASSERT_EQ(made.subjects.size(), 1U);
  EXPECT_EQ(made.subjects[0].sha256, digest);
  const TestResult tests = test_result_in(statement_in(enclose(made), "made"), "made");
  EXPECT_EQ(tests.result(), "FAILED");
  EXPECT_THAT(tests.passed,
              ElementsAre("largest leak minus floor at most 0.1 from 1 answer of one network"));
  EXPECT_THAT(tests.warned,
              ElementsAre("largest leak minus floor at most 0.1 from 10 answers of one network"));
  EXPECT_THAT(tests.failed,
              ElementsAre("largest leak minus floor at most 0.1",
                          "largest leak minus floor at most 0.1 from 100 answers of one network"));
  EXPECT_THAT(tests.configuration, ElementsAre(Artifact{"seen.npy", of_array}));
  const nlohmann::ordered_json details = (*made.predicate)["details"];
  EXPECT_EQ(details["forgotten"], nlohmann::ordered_json({3}));
  EXPECT_EQ(details["limit"], 0.1);
  EXPECT_EQ(details.dump().find("Alice"), std::string::npos);
}

TEST(Gate, AnAuditThatJudgesNothingIsAWarning) {
  AuditResult result;
  result.verdict.reason = "one network";
  const TestResult tests =
      test_result_in(audit_statement({"m", std::string(64, '0')}, result, 0.1, {}), "made");
  EXPECT_EQ(tests.result(), "WARNED");
  EXPECT_THAT(tests.passed, IsEmpty());
}

}  // namespace
}  // namespace oubli
