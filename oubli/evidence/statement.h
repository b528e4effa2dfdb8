#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/evidence/dsse.h"

namespace oubli {

inline constexpr char kInTotoPayload[] = "application/vnd.in-toto+json";
inline constexpr char kStatementType[] = "https://in-toto.io/Statement/v1";
inline constexpr char kTestResultType[] = "https://in-toto.io/attestation/test-result/v0.1";

// A file by its digest; the name is for people [in-toto, ResourceDescriptor].
struct Artifact {
  std::string name;
  std::string sha256;
  friend bool operator==(const Artifact&, const Artifact&) = default;
};
[[nodiscard]] nlohmann::ordered_json artifact_json(const Artifact& artifact);
// Error{bad_input} unless it has a SHA-256 in lower-case hexadecimal.
[[nodiscard]] Artifact artifact_of(const nlohmann::ordered_json& json, const std::string& what);

// An in-toto Statement v1: what is said (the predicate) about which files (the subjects).
struct Statement {
  Statement();
  Statement(std::vector<Artifact> subjects, std::string predicate_type,
            const nlohmann::ordered_json& predicate);

  std::vector<Artifact> subjects;
  std::string predicate_type;
  std::shared_ptr<const nlohmann::ordered_json> predicate;
};

// One line of JSON in an envelope without signatures.
[[nodiscard]] Envelope enclose(const Statement& statement);

// What the envelope's payload says. Error{bad_input} if the payload is not an in-toto Statement v1
// with at least one subject. Members that this program does not know are left alone: they are
// signed, and the specification says so.
[[nodiscard]] Statement statement_in(const Envelope& envelope, const std::string& what);

// A test-result/v0.1 about `subjects`. The result is the worst of the lists that is not empty.
// `annotations` (an object, may be null) goes beside the fields of the specification, as "details".
struct TestResult {
  std::vector<Artifact> configuration;
  std::vector<std::string> passed, warned, failed;

  [[nodiscard]] std::string_view result() const;
};
[[nodiscard]] Statement test_statement(std::vector<Artifact> subjects, const TestResult& result,
                                       const nlohmann::ordered_json& details);
// Error{bad_input} if the predicate is not one, or its result is not that of its lists.
[[nodiscard]] TestResult test_result_in(const Statement& statement, const std::string& what);

}  // namespace oubli
