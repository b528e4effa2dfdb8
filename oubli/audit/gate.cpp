#include "oubli/audit/gate.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "oubli/base/version.h"

namespace oubli {
namespace {

using Json = nlohmann::ordered_json;

void add_test(TestResult& tests, const std::string& name, const Figure& excess, double limit) {
  switch (gate(excess, limit)) {
    case Gate::passed:
      tests.passed.push_back(name);
      return;
    case Gate::failed:
      tests.failed.push_back(name);
      return;
    case Gate::undecided:
      tests.warned.push_back(name);
      return;
  }
}

template <typename Value>
std::vector<std::string> names_of(const std::vector<Value>& values) {
  std::vector<std::string> names;
  names.reserve(values.size());
  for (const Value value : values) names.emplace_back(name_of(value));
  return names;
}

// What is needed to make the audit again from the arrays, and what it came to.
Json details_of(const AuditResult& result, double limit) {
  const AuditOptions& options = result.options;
  Json details{{"tool", "oubli"},
               {"version", kVersion},
               {"limit", limit},
               {"classes", result.classes},
               {"forgotten", result.forgotten},
               {"samples", result.samples},
               {"models", {{"seen", result.models_seen}, {"unseen", result.models_unseen}}},
               {"attacks", names_of(options.attacks)},
               {"answers", options.answers},
               {"observers", names_of(options.observers)},
               {"train_share", options.train_share},
               {"bootstrap", options.bootstrap},
               {"seed", options.seed},
               {"verdict", Json(nlohmann::json(result.verdict))}};
  if (result.models_unseen2) details["models"]["unseen2"] = *result.models_unseen2;
  return details;
}

}  // namespace

Gate gate(const Figure& excess, double limit) {
  if (!excess.low || !excess.high) return Gate::undecided;
  if (*excess.low > limit) return Gate::failed;
  return *excess.high <= limit ? Gate::passed : Gate::undecided;
}

Statement audit_statement(const Artifact& model, const AuditResult& result, double limit,
                          std::vector<Artifact> arrays) {
  const Verdict& verdict = result.verdict;
  const std::string above = verdict.with_floor ? "leak minus floor" : "leak";
  TestResult tests;
  tests.configuration = std::move(arrays);
  add_test(tests, fmt::format("largest {} at most {}", above, limit), verdict.excess, limit);
  for (const VerdictPart& part : verdict.parts)
    add_test(tests,
             fmt::format("largest {} at most {} from {} answer{} of one network", above, limit,
                         part.answers, part.answers == 1 ? "" : "s"),
             part.excess, limit);
  return test_statement({model}, tests, details_of(result, limit));
}

}  // namespace oubli
