#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "oubli/data/image_set.h"
#include "oubli/experiment/run_folder.h"

namespace oubli {

// One audit: the networks of one size, unlearned in one way, against retrained ones. Works from the
// logits of the run folder and leaves audits/NAME.json there.
struct AuditTask {
  std::string name;  // "cnn256-0-normalization-10-test"
  std::size_t hidden = 0;
  std::vector<std::size_t> forget;
  std::string method;       // naive, normalization, randomization, zeroing, refit; or floor
  std::string samples;      // "1", "10", "all"; empty where no means are used
  std::string means_from;   // "test" or "train"; empty where no means are used
  bool each_class = false;  // forgetting each class in turn: inputs of that class alone
};

// Every audit of a run, floors first.
[[nodiscard]] std::vector<AuditTask> plan_audits(const RunConfig& config);

// Whether the audit is there and was made from the trials that are done now.
[[nodiscard]] bool is_audited(const RunFolder& folder, const AuditTask& task);

// `test` is the data set whose logits the trials saved. One thread: audits run side by side.
void run_audit(const RunFolder& folder, const AuditTask& task, const ImageSet& test,
               const std::stop_token& stop);

}  // namespace oubli
