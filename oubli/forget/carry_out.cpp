#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "oubli/base/file_chunks.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/json.h"
#include "oubli/base/output.h"
#include "oubli/base/workers.h"
#include "oubli/evidence/evidence_file.h"
#include "oubli/forget/attestation.h"
#include "oubli/forget/forget.h"
#include "oubli/forget/random_run.h"
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

FileDigest digest(std::string role, AtomicFile& file) {
  FileDigest result = digest_of(std::move(role), file.temporary_path());
  result.name = file.path().filename().string();
  return result;
}

// A plan on its way to disk: all of it is there under temporary names before the first of it
// appears.
class Delivery {
 public:
  Delivery(const ForgetInputs& inputs, const ForgetRequest& request, const ForgetPlan& plan,
           const ForgetOutputs& outputs, const std::stop_token& stop)
      : inputs_(inputs), request_(request), plan_(plan), outputs_(outputs), stop_(stop) {}

  void check_places() const {
    std::vector<std::filesystem::path> read = inputs_.model->files();
    for (const std::vector<FileDigest>* const files : {&plan_.digests.means, &plan_.digests.data})
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

  void stage() {
    staged_ = inputs_.model->stage(plan_.new_head, plan_.split().retained, outputs_.model,
                                   outputs_.replace);
    release_pages(inputs_.model->bytes());
  }

  // The written files are searched and read for their digests while they go to the disk, which
  // takes a thread but no core.
  void check() {
    std::vector<FileDigest> means;
    const auto check_part = [&](std::size_t part, unsigned) {
      if (part == 0) {
        for (const auto& path : staged_.written->files()) wait_for_disk(path);
      } else if (part == 1) {
        digest_model();
      } else if (part == 2) {
        outcome.written_check =
            check_staged(staged_, inputs_.model->head(), plan_.written_head(), plan_.split());
      } else {
        outcome.head_sha256 = head_digest(staged_.written->head());
        if (plan_.has_means_to_keep()) means.push_back(write_remaining_means());
      }
    };
    run_tasks(4, available_cores() + 1, check_part, stop_);
    std::ranges::move(means, std::back_inserter(outcome.written));
  }

  void measure_leaks() { outcome.leaks = look_for_leaks(inputs_, request_, plan_).leaks; }

  void measure_run() {
    const HeadFilter& filter = plan_.filtration.filter;
    const HeadRounding rounding = plan_.rounding();
    outcome.run_check =
        inputs_.run != nullptr && !inputs_.run->stands_in()
            ? RunOutcome{inputs_.run->check(staged_, filter, rounding, stop_), ""}
            : run_on_random_inputs(*inputs_.model, *staged_.written, filter, rounding, stop_);
  }

  void write_receipt() {
    look_for_names();
    if (outputs_.class_names && !request_.class_names.empty()) {
      AtomicFile& names = add(*outputs_.class_names);
      for (const std::size_t j : plan_.split().retained)
        names.write(request_.class_names[j] + "\n");
      outcome.written.push_back(digest("class names", names));
    }
    outcome.findings = std::move(staged_.findings);
    outcome.receipt = make_receipt(inputs_, request_, plan_, outcome, *staged_.written, outputs_);
    add(receipt_path(outputs_.model)).write(outcome.receipt);
    if (outputs_.attest) write_evidence();
  }

  void commit() {
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

  ForgetOutcome outcome;

 private:
  AtomicFile& add(const std::filesystem::path& path) {
    beside_.push_back(std::make_unique<AtomicFile>(path, true));
    return *beside_.back();
  }

  void write_evidence() {
    const PrivateKey key = PrivateKey::read(*outputs_.signing_key);
    Envelope envelope = enclose(deletion_statement(parse_json(outcome.receipt, "the receipt")));
    sign(envelope, key);
    std::string lines;
    if (outputs_.previous_evidence)
      lines = evidence_about(*outputs_.previous_evidence, plan_.digests.model.front().sha256);
    lines += envelope_line(envelope);
    if (lines.size() > kEvidenceLimit)
      fail(ErrorCode::unfilterable,
           "{}: would have {} bytes, more than the {} that are read; use --no-attest",
           evidence_path(outputs_.model).string(), lines.size(), kEvidenceLimit);
    add(evidence_path(outputs_.model)).write(lines);
    if (outputs_.bundle) add(bundle_path(outputs_.model)).write(bundle_text(envelope));
  }

  void digest_model() {
    for (const StagedModel::Output& output : staged_.outputs()) {
      FileDigest its = file_named("model", output.path);
      its.name = output.name;
      its.sha256 = sha256_file(its.path, inputs_.model->bytes(), plan_.digests.model_trail);
      outcome.written.push_back(std::move(its));
    }
  }

  FileDigest write_remaining_means() {
    AtomicFile& file = add(means_path(outputs_.model));
    write_means(file, shrink_means(*plan_.means, plan_.filtration, outcome.head_sha256));
    FileDigest its = digest("means", file);
    wait_for_disk(file.temporary_path());
    return its;
  }

  // The names of the forgotten classes must not be in the new file. What is found could not be cut
  // out.
  void look_for_names() {
    for (const std::size_t c : request_.forget)
      for (const std::string& name : names_of_class(*inputs_.model, request_, c))
        for (std::string place : staged_.written->places_with_name(name))
          staged_.findings.push_back(
              {std::move(place),
               fmt::format("still says the name of forgotten class {}: it could not be cut out "
                           "without breaking what it stands in",
                           c)});
  }

  const ForgetInputs& inputs_;
  const ForgetRequest& request_;
  const ForgetPlan& plan_;
  const ForgetOutputs& outputs_;
  const std::stop_token& stop_;
  StagedModel staged_;
  std::vector<std::unique_ptr<AtomicFile>> beside_;  // the new model
};

}  // namespace

ForgetOutcome carry_out(const ForgetInputs& inputs, const ForgetRequest& request,
                        const ForgetPlan& plan, const ForgetOutputs& outputs,
                        const std::stop_token& stop) {
  Delivery delivery(inputs, request, plan, outputs, stop);
  delivery.check_places();
  const auto write_or_measure = [&](std::size_t task, unsigned) {
    if (task == 1) return delivery.measure_leaks();
    delivery.stage();
    delivery.check();
  };
  run_tasks(2, available_cores(), write_or_measure, stop);
  delivery.measure_run();
  delivery.write_receipt();
  delivery.commit();
  return std::move(delivery.outcome);
}

}  // namespace oubli
