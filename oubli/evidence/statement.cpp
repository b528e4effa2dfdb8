#include "oubli/evidence/statement.h"

#include <algorithm>

#include "oubli/evidence/members.h"

namespace oubli {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> names_in(const Json& predicate, const char* list,
                                  const std::string& what) {
  std::vector<std::string> names;
  if (!predicate.contains(list)) return names;
  for (const Json& name : list_member(predicate, list, what)) {
    if (!name.is_string()) fail(ErrorCode::bad_input, "{}: '{}' has more than names", what, list);
    names.push_back(name.get<std::string>());
  }
  return names;
}

}  // namespace

Json artifact_json(const Artifact& artifact) {
  return {{"name", artifact.name}, {"digest", {{"sha256", artifact.sha256}}}};
}

Artifact artifact_of(const Json& json, const std::string& what) {
  Artifact artifact{
      json.is_object() && json.contains("name") ? text_member(json, "name", what) : std::string(),
      text_member(member(json, "digest", what), "sha256", what)};
  const auto bytes = bytes_of_hex(artifact.sha256);
  if (!bytes || bytes->size() != 32)
    fail(ErrorCode::bad_input, "{}: 'sha256' is not 64 lower-case hexadecimal digits", what);
  return artifact;
}

Statement::Statement() : predicate(std::make_shared<const Json>()) {}

Statement::Statement(std::vector<Artifact> about, std::string type, const Json& says)
    : subjects(std::move(about)),
      predicate_type(std::move(type)),
      predicate(std::make_shared<const Json>(says)) {}

Envelope enclose(const Statement& statement) {
  Json subjects = Json::array();
  for (const Artifact& subject : statement.subjects) subjects.push_back(artifact_json(subject));
  const Json json{{"_type", kStatementType},
                  {"subject", std::move(subjects)},
                  {"predicateType", statement.predicate_type},
                  {"predicate", *statement.predicate}};
  return {kInTotoPayload, to_text(json, -1), {}};
}

Statement statement_in(const Envelope& envelope, const std::string& what) {
  if (envelope.payload_type != kInTotoPayload)
    fail(ErrorCode::bad_input, "{}: the payload is of type '{}'; wanted '{}'", what,
         envelope.payload_type, kInTotoPayload);
  if (!envelope.payload.starts_with('{'))
    fail(ErrorCode::bad_input, "{}: the payload is no JSON object", what);
  const Json json = parse_json(envelope.payload, what);
  if (const std::string type = text_member(json, "_type", what); type != kStatementType)
    fail(ErrorCode::bad_input, "{}: a statement of type '{}'; wanted '{}'", what, type,
         kStatementType);
  std::vector<Artifact> subjects;
  for (const Json& subject : list_member(json, "subject", what))
    subjects.push_back(
        artifact_of(subject, fmt::format("{}, subject {}", what, subjects.size() + 1)));
  if (subjects.empty()) fail(ErrorCode::bad_input, "{}: a statement about nothing", what);
  const Json& predicate = member(json, "predicate", what);
  if (!predicate.is_object()) fail(ErrorCode::bad_input, "{}: 'predicate' is no object", what);
  return {std::move(subjects), text_member(json, "predicateType", what), predicate};
}

std::string_view TestResult::result() const {
  return !failed.empty() ? "FAILED" : !warned.empty() ? "WARNED" : "PASSED";
}

Statement test_statement(std::vector<Artifact> subjects, const TestResult& result,
                         const Json& details) {
  Json configuration = Json::array();
  for (const Artifact& artifact : result.configuration)
    configuration.push_back(artifact_json(artifact));
  Json predicate{{"result", result.result()},
                 {"configuration", std::move(configuration)},
                 {"passedTests", result.passed},
                 {"warnedTests", result.warned},
                 {"failedTests", result.failed}};
  if (!details.is_null()) predicate["details"] = details;
  return {std::move(subjects), kTestResultType, predicate};
}

TestResult test_result_in(const Statement& statement, const std::string& what) {
  const Json& predicate = *statement.predicate;
  TestResult result;
  for (const Json& artifact : list_member(predicate, "configuration", what))
    result.configuration.push_back(artifact_of(
        artifact, fmt::format("{}, configuration {}", what, result.configuration.size() + 1)));
  result.passed = names_in(predicate, "passedTests", what);
  result.warned = names_in(predicate, "warnedTests", what);
  result.failed = names_in(predicate, "failedTests", what);
  if (const std::string said = text_member(predicate, "result", what); said != result.result())
    fail(ErrorCode::bad_input, "{}: the result is '{}', but its tests say {}", what, said,
         result.result());
  return result;
}

}  // namespace oubli
