#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>

#include "oubli/experiment/results.h"
#include "oubli/experiment/run_config.h"
#include "oubli/experiment/scheduler.h"

namespace oubli {

struct ReproduceOptions {
  std::filesystem::path folder;
  RunConfig config;
  bool train_only = false;  // leave the audits and results.json for another time
};

// The whole experiment: trains what is missing, audits what is missing, writes results.json.
// Every process of a job calls it; the main one gets the results (none if train_only), the others
// none. Trials that failed before are tried again. Error{io} if memory does not suffice: what was
// finished stays in the folder.
[[nodiscard]] std::optional<Results> reproduce(Scheduler& scheduler,
                                               const ReproduceOptions& options,
                                               const std::stop_token& stop);

// How far a run is. For people, and as JSON.
struct RunStatus {
  struct Row {
    std::string population;  // "cnn256 seen"
    std::size_t planned = 0, done = 0, failed = 0, underway = 0;
  };
  std::vector<Row> rows;
  std::size_t audits_planned = 0, audits_done = 0;
  std::string holder;        // the process at work; empty if none
  double seconds_left = -1;  // of training; < 0: unknown
  bool finished = false;     // results.json is newer than everything it is made from
  std::vector<std::pair<std::string, std::string>> failures;  // id, reason
};
[[nodiscard]] RunStatus status_of(const std::filesystem::path& folder);

}  // namespace oubli
