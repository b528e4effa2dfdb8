#include "oubli/forget/attestation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "oubli/base/digest.h"
#include "oubli/base/file.h"
#include "oubli/base/json.h"
#include "oubli/base/progress.h"
#include "oubli/evidence/attested.h"
#include "oubli/evidence/evidence_file.h"
#include "oubli/forget/receipt.h"

namespace oubli {
namespace {

using Json = nlohmann::ordered_json;
using State = VerifyStep::State;

struct Material {
  std::string role;
  Artifact file;
};

void add_materials(const ReceiptPart& files, std::vector<Material>& materials) {
  for (const ReceiptPart& file : files.list())
    materials.push_back({file["role"].text(), {file["name"].text(), file["sha256"].text()}});
}

std::vector<Material> materials_of(const ReceiptPart& receipt) {
  std::vector<Material> materials;
  add_materials(receipt["input"]["files"], materials);
  const ReceiptPart calibration = receipt["calibration"];
  for (const char* const files : {"means_files", "data_files"})
    if (calibration.has(files)) add_materials(calibration[files], materials);
  if (const ReceiptPart previous = receipt["previous_receipt_sha256"]; !previous.is_null())
    materials.push_back({"previous receipt", {"previous receipt", previous.text()}});
  return materials;
}

// The digest of the file that a receipt was written to.
std::string digest_of_file(const Json& receipt) {
  return sha256_hex(as_bytes(to_text(receipt, 1) + "\n"));
}

bool is_subject(const Statement& statement, const std::string& sha256) {
  return std::ranges::count(statement.subjects, sha256, &Artifact::sha256) > 0;
}

// A deletion that is known to have been said.
struct Deletion {
  std::size_t envelope = 0;
  Statement statement;
  Json receipt;
  std::vector<std::string> read;  // digests of the old model's files
};

Deletion deletion_in(const Statement& statement, std::size_t envelope, const std::string& what) {
  Deletion deletion{envelope, statement, receipt_in(statement, what), {}};
  for (const ReceiptPart& file : ReceiptPart(deletion.receipt)["input"]["files"].list())
    deletion.read.push_back(file["sha256"].text());
  return deletion;
}

VerifyStep test_step(const Statement& statement, const std::string& what) {
  const TestResult result = test_result_in(statement, what);
  std::string failed;
  for (const auto* const names : {&result.failed, &result.warned})
    for (const std::string& name : *names) failed += (failed.empty() ? ": " : "; ") + name;
  return {"a test result about this model", State::passed,
          fmt::format("says {}: {} passed, {} warned, {} failed{}", result.result(),
                      result.passed.size(), result.warned.size(), result.failed.size(), failed)};
}

// The deletions before `last`, as far as they are there.
VerifyStep chain_step(const std::vector<Deletion>& deletions, const Deletion* last) {
  const char* const what = "the chain of deletions";
  std::set<const Deletion*> seen{last};
  for (;;) {
    const Deletion* before = nullptr;
    for (const Deletion& candidate : deletions) {
      const bool feeds = std::ranges::any_of(last->read, [&](const std::string& sha256) {
        return is_subject(candidate.statement, sha256);
      });
      if (!feeds) continue;
      if (before != nullptr)
        return {what, State::failed, "two statements say where one model comes from"};
      before = &candidate;
    }
    const Json named = last->receipt.value("previous_receipt_sha256", Json());
    if (before == nullptr) {
      if (seen.size() == 1) return {what, State::not_made, "no earlier deletion is in this file"};
      return {what, State::passed,
              fmt::format(
                  "{} deletions, each one's input the output of the one before; {}", seen.size(),
                  named.is_null() ? "the first has none before it"
                                  : "the first names an earlier receipt, not in this file")};
    }
    if (!seen.insert(before).second) return {what, State::failed, "leads back to itself"};
    if (named != digest_of_file(before->receipt))
      return {what, State::failed,
              fmt::format("the receipt in statement {} is not the one that statement {} names",
                          before->envelope + 1, last->envelope + 1)};
    last = before;
  }
}

}  // namespace

Statement deletion_statement(const Json& receipt) {
  const ReceiptPart whole(receipt);
  std::vector<Artifact> subjects;
  for (const ReceiptPart& file : whole["output"]["files"].list())
    subjects.push_back({file["name"].text(), file["sha256"].text()});
  Json materials = Json::array();
  for (const Material& material : materials_of(whole)) {
    Json entry = artifact_json(material.file);
    entry["annotations"] = {{"role", material.role}};
    materials.push_back(std::move(entry));
  }
  return {std::move(subjects), kDeletionType,
          Json{{"materials", std::move(materials)}, {"receipt", receipt}}};
}

Json receipt_in(const Statement& statement, const std::string& what) {
  if (statement.predicate_type != kDeletionType)
    fail(ErrorCode::bad_input, "{}: a statement of type '{}'; wanted '{}'", what,
         statement.predicate_type, kDeletionType);
  const auto found = statement.predicate->find("receipt");
  if (found == statement.predicate->end())
    fail(ErrorCode::bad_input, "{}: no 'receipt' in the predicate", what);
  Json receipt = parse_receipt(to_text(*found, -1), what);
  const Statement expected = deletion_statement(receipt);
  if (statement.subjects != expected.subjects)
    fail(ErrorCode::bad_input, "{}: the subjects are not the files that its receipt names", what);
  if (statement.predicate->value("materials", Json()) != (*expected.predicate)["materials"])
    fail(ErrorCode::bad_input, "{}: the materials are not the files that its receipt names", what);
  return receipt;
}

std::filesystem::path evidence_path(const std::filesystem::path& model) {
  return std::filesystem::path(model) += ".intoto.jsonl";
}

std::filesystem::path bundle_path(const std::filesystem::path& model) {
  return std::filesystem::path(model) += ".sigstore.json";
}

std::string evidence_about(const std::filesystem::path& path, const std::string& sha256) {
  const auto envelopes = parse_evidence(read_text_file(path, kEvidenceLimit), path.string());
  std::string lines;
  bool about = false;
  for (const Envelope& envelope : envelopes.value_or(std::vector<Envelope>())) {
    about = about || is_subject(statement_in(envelope, path.string()), sha256);
    lines += envelope_line(envelope);
  }
  if (about) return lines;
  say(fmt::format("{}: has no statement about the model; not taken over", path.string()));
  return {};
}

EvidenceCheck check_evidence(std::span<const Envelope> envelopes, std::span<const PublicKey> keys,
                             std::size_t threshold, const std::string& model_sha256,
                             const std::string& what) {
  EvidenceCheck check;
  std::vector<Deletion> deletions;
  std::vector<VerifyStep> tests;
  for (std::size_t i = 0; i < envelopes.size(); ++i) {
    const std::string place = fmt::format("{}, statement {}", what, i + 1);
    Attested found;
    if (keys.empty()) {
      found.statement = statement_in(envelopes[i], place);
      found.detail = "no --key was given";
    } else {
      found = attested(envelopes[i], keys, threshold, place);
    }
    const State state = keys.empty() || !found.statement ? State::not_made : State::passed;
    check.steps.push_back({envelopes.size() == 1 ? "signature of the statement"
                                                 : fmt::format("signature of statement {}", i + 1),
                           state, found.detail});
    if (!found.statement) continue;
    if (found.statement->predicate_type == kDeletionType)
      deletions.push_back(deletion_in(*found.statement, i, place));
    else if (found.statement->predicate_type == kTestResultType &&
             is_subject(*found.statement, model_sha256))
      tests.push_back(test_step(*found.statement, place));
  }
  std::vector<const Deletion*> about;
  for (const Deletion& deletion : deletions)
    if (is_subject(deletion.statement, model_sha256)) about.push_back(&deletion);
  if (about.size() != 1) {
    check.steps.push_back(
        {"a deletion that gave this model", State::failed,
         about.empty()
             ? fmt::format("no statement that counts is about a file with SHA-256 {}", model_sha256)
             : fmt::format("{} statements say that they gave it", about.size())});
    return check;
  }
  check.deletion = about.front()->statement;
  check.steps.push_back(
      {"a deletion that gave this model", State::passed,
       fmt::format("statement {} of {}", about.front()->envelope + 1, envelopes.size())});
  check.steps.push_back(chain_step(deletions, about.front()));
  std::ranges::move(tests, std::back_inserter(check.steps));
  return check;
}

}  // namespace oubli
