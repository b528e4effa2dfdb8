#include "oubli/forget/delivery.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "oubli/base/digest.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/json.h"
#include "oubli/base/output.h"
#include "oubli/evidence/evidence_file.h"
#include "oubli/forget/attestation.h"
#include "oubli/forget/receipt.h"

namespace oubli {
namespace {

// A file that an interrupted run may have left: fine if it is what we would write, else somebody's.
void check_free(AtomicFile& staged, bool replace) {
  if (replace || !std::filesystem::exists(staged.path())) return;
  const MappedFile there(staged.path());
  const MappedFile ours(staged.temporary_path());
  if (!std::ranges::equal(there.bytes(), ours.bytes()))
    fail(ErrorCode::usage, "{}: exists already, with other content; use --force to replace it",
         staged.path().string());
}

}  // namespace

void Delivery::check_places() const {
  std::vector<std::filesystem::path> read = inputs_.model->files();
  for (const std::vector<FileDigest>* const files : {&digests_.means, &digests_.data})
    for (const FileDigest& file : *files) read.push_back(file.path);
  for (const auto* const named :
       {&outputs_.signing_key, &outputs_.previous_receipt, &outputs_.previous_evidence})
    if (*named) read.push_back(**named);
  std::vector<std::filesystem::path> written{outputs_.model, receipt_path(outputs_.model),
                                             means_path(outputs_.model)};
  if (outputs_.class_names) written.push_back(*outputs_.class_names);
  if (outputs_.attest) written.push_back(evidence_path(outputs_.model));
  if (outputs_.bundle) written.push_back(bundle_path(outputs_.model));
  require_apart(written, read);
  prepare_output(outputs_.model, outputs_.replace);
}

AtomicFile& Delivery::add(const std::filesystem::path& path) {
  beside_.push_back(std::make_unique<AtomicFile>(path, true));
  return *beside_.back();
}

FileDigest Delivery::digest(std::string role, AtomicFile& file) {
  FileDigest result = digest_of(std::move(role), file.temporary_path());
  result.name = file.path().filename().string();
  return result;
}

std::vector<FileDigest> Delivery::digest_model() const {
  std::vector<FileDigest> digests;
  for (const StagedModel::Output& output : staged_.outputs()) {
    FileDigest its = file_named("model", output.path);
    its.name = output.name;
    its.sha256 = sha256_file(its.path, inputs_.model->bytes(), digests_.model_trail);
    digests.push_back(std::move(its));
  }
  return digests;
}

std::vector<FileDigest> Delivery::write_class_names(std::span<const std::size_t> retained) {
  if (!outputs_.class_names || request_.class_names.empty()) return {};
  AtomicFile& names = add(*outputs_.class_names);
  for (const std::size_t j : retained) names.write(request_.class_names[j] + "\n");
  return {digest("class names", names)};
}

void Delivery::look_for_names() {
  for (const std::size_t c : request_.forget)
    for (const std::string& name : names_of_class(*inputs_.model, request_, c))
      for (std::string place : staged_.written->places_with_name(name))
        staged_.findings.push_back(
            {std::move(place),
             fmt::format("still says the name of forgotten class {}: it could not be cut out "
                         "without breaking what it stands in",
                         c)});
}

void Delivery::write_receipt(const std::string& receipt) {
  add(receipt_path(outputs_.model)).write(receipt);
  if (outputs_.attest) write_evidence(receipt);
}

void Delivery::write_evidence(const std::string& receipt) {
  const PrivateKey key = PrivateKey::read(*outputs_.signing_key);
  Envelope envelope = enclose(deletion_statement(parse_json(receipt, "the receipt")));
  sign(envelope, key);
  std::string lines;
  if (outputs_.previous_evidence)
    lines = evidence_about(*outputs_.previous_evidence, digests_.model.front().sha256);
  lines += envelope_line(envelope);
  if (lines.size() > kEvidenceLimit)
    fail(ErrorCode::unfilterable,
         "{}: would have {} bytes, more than the {} that are read; use --no-attest",
         evidence_path(outputs_.model).string(), lines.size(), kEvidenceLimit);
  add(evidence_path(outputs_.model)).write(lines);
  if (outputs_.bundle) add(bundle_path(outputs_.model)).write(bundle_text(envelope));
}

void Delivery::commit() {
  // What was read in between was read from unchanged files, or nothing appears.
  inputs_.model->check_unchanged();
  if (inputs_.data) inputs_.data->check_unchanged();
  if (inputs_.means && inputs_.means->means.file) inputs_.means->means.file->check_unchanged();
  for (const auto& file : beside_) check_free(*file, outputs_.replace);
  throw_if_stopped(stop_);
  std::vector<AtomicFile*> all;
  for (const auto* const files : {&beside_, &staged_.files})
    for (const auto& file : *files) all.push_back(file.get());
  AtomicFile::commit(all);
  if (staged_.folder) staged_.folder->commit();
}

}  // namespace oubli
