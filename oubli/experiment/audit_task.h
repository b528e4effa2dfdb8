#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "oubli/data/image_set.h"
#include "oubli/experiment/results.h"
#include "oubli/experiment/run_folder.h"
#include "oubli/experiment/treatment.h"

namespace oubli {

// One audit: the networks of one size, treated in one way, against retrained ones. Works from the
// logits of the run folder and leaves audits/NAME.json there.
struct AuditTask {
  std::string name;  // "cnn256-0-normalization-10-test"
  std::size_t hidden = 0;
  std::vector<std::size_t> forget;
  Treatment treatment;
  std::optional<MeansOf> means;  // where class means are used
  bool each_class = false;       // forgetting each class in turn: inputs of that class alone
};

// Every audit of a run, floors first.
[[nodiscard]] std::vector<AuditTask> audit_tasks_of(const RunConfig& config);

// Grows whenever an audit of the same networks says something else: finished audits are then made
// again.
// 2: intervals of KS; 3: Welch's, with few networks; 4: attacks per image, scores, verdicts.
inline constexpr std::uint32_t kAuditFileVersion = 4;

// What audits/NAME.json holds.
struct AuditRecord {
  std::string format = "oubli-run-audit";
  std::uint32_t version = kAuditFileVersion;
  std::string name;                   // of the task
  std::string inputs;                 // digest of what it was made from
  std::size_t seen = 0, unseen = 0;   // networks
  std::vector<FailedNetwork> failed;  // that could not be filtered
  std::string reason;                 // why there is no audit
  std::optional<AuditResult> audit;
};
// Error{bad_input} names the file and the place.
[[nodiscard]] AuditRecord read_audit(const RunFolder& folder, const AuditTask& task);

// Whether the audit is there and was made from the trials that are done now.
[[nodiscard]] bool is_audited(const RunFolder& folder, const AuditTask& task);

// `test` is the data set whose logits the trials saved. One thread: audits run side by side.
void run_audit(const RunFolder& folder, const AuditTask& task, const ImageSet& test,
               const std::stop_token& stop);

}  // namespace oubli
