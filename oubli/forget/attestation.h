#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oubli/evidence/statement.h"
#include "oubli/forget/verify.h"

namespace oubli {

// The receipt as an in-toto statement: subjects are the files that were written; the predicate has
// the receipt as it is and, as materials, the files that went in: the old model, means, data, and
// the receipt before this one. docs/schemas/class-deletion-v1.schema.json describes it.
inline constexpr char kDeletionType[] = "urn:oubli:class-deletion:v1";

[[nodiscard]] Statement deletion_statement(const nlohmann::ordered_json& receipt);

// The receipt that the statement is about. Error{bad_input} unless it is a receipt, and subjects
// and materials are exactly those of deletion_statement(): no two parts of one statement disagree.
[[nodiscard]] nlohmann::ordered_json receipt_in(const Statement& statement,
                                                const std::string& what);

// NEW.intoto.jsonl and NEW.sigstore.json, beside the new model.
[[nodiscard]] std::filesystem::path evidence_path(const std::filesystem::path& model);
[[nodiscard]] std::filesystem::path bundle_path(const std::filesystem::path& model);

// The lines of a file of evidence, if one of its statements is about a file of this digest; else
// nothing, which is said: a chain begins anew. Nothing is verified here: nobody has given a key.
[[nodiscard]] std::string evidence_about(const std::filesystem::path& path,
                                         const std::string& sha256);

// What a file of evidence says about a model.
struct EvidenceCheck {
  std::vector<VerifyStep> steps;      // signatures, the chain of deletions, results of tests
  std::optional<Statement> deletion;  // the one that gave the model
};

// Statements that fewer than `threshold` of `keys` signed are left alone, as the specification asks
// for; the one about the model must not be among them. Without keys nothing is known of who signed,
// and a step says so. Exactly one deletion must have given the model, whose file has this digest;
// the deletions before it, as far as the file has them, are followed back by digests of models and
// of receipts. Error{bad_input} if what was signed is damaged.
[[nodiscard]] EvidenceCheck check_evidence(std::span<const Envelope> envelopes,
                                           std::span<const PublicKey> keys, std::size_t threshold,
                                           const std::string& model_sha256,
                                           const std::string& what);

}  // namespace oubli
