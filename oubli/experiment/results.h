#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "oubli/audit/audit.h"
#include "oubli/experiment/result_table.h"
#include "oubli/experiment/run_config.h"
#include "oubli/experiment/treatment.h"

namespace oubli {

// A network that is not in the figures.
struct FailedNetwork {
  std::string id;  // "mlp50-seen-003"
  std::string reason;
};

// The audit of one way of forgetting.
struct TreatmentResult {
  Treatment treatment;
  std::optional<MeansOf> means;       // where it needs class means
  std::vector<FailedNetwork> failed;  // that could not be filtered
  std::string reason;                 // why there is no audit
  std::optional<AuditResult> audit;   // without a floor of its own: the floor is the part's
};

// The networks of one size, or of one class forgotten in turn.
struct PartResult {
  std::size_t hidden = 0;
  std::vector<std::size_t> forgotten;
  std::size_t seen = 0, unseen = 0;  // networks
  std::optional<std::size_t> second = {};
  std::optional<AuditResult> floor = {};  // of the second batch of retrained networks against the
                                          // first: "seen" in it is the second batch
  std::vector<TreatmentResult> treatments = {};
};

// All that tables and the report need of an experiment. No times and no names of machines: the same
// run gives the same bytes.
struct Results {
  std::string experiment, data_set, architecture;
  std::uint64_t seed = 0;
  std::vector<std::string> class_names;
  RunConfig config;
  std::vector<FailedNetwork> failed;
  std::vector<PartResult> parts;
  std::vector<PartResult> each_class;  // forgetting each class in turn, inputs of that class alone
  std::vector<ResultTable> tables;     // the paper's tables with ours beside them, and ours alone
};

// results.json. AUDIT is what to_json(AuditResult) gives (oubli/audit/audit.h).
//
// {"format": "oubli-results", "version": 1,
//  "experiment": "mnist", "data_set": "mnist", "architecture": "mlp", "seed": 1,
//  "class_names": ["0", ...],
//  "config": RunConfig,
//  "failed": [{"id": "mlp50-seen-003", "reason": "..."}],
//  "parts": [
//    {"hidden": 50, "forgotten": [0],
//     "models": {"seen": 100, "unseen": 100, "second": 100},
//     "floor": AUDIT,       null without one
//     "methods": [
//       {"method": "naive", "audit": AUDIT},
//       {"method": "normalization", "samples": "10", "means_from": "test", "audit": AUDIT,
//        "failed": [{"id": ..., "reason": ...}]},   networks that could not be filtered
//       {"method": "normalization", "samples": "all", "means_from": "train", ...},
//       {"method": "explained-0.07", "samples": "all", "means_from": "test", ...},   rho is 0.07
//       {"method": "explained-0.07", "samples": "all", "means_from": "train", ...},
//       {"method": "randomization", "samples": "all", "means_from": "test", ...},
//       {"method": "zeroing", ...}, {"method": "refit", "audit": AUDIT}]}],
//  "each_class": [          forgetting each class in turn, inputs of that class alone
//    {"hidden": 50, "forgotten": [3], "models": {"seen": 100, "unseen": 100},
//     "methods": [{"method": "naive", "audit": AUDIT}, {"method": "normalization", ...},
//                 {"method": "explained-0.07", ...}]}],
//  "tables": [              the paper's tables with ours beside them, and ours alone
//    {"title": "...", "published": "tab:MLP50" or null, "number": "I", "place": "main text",
//     "notes": ["..."],
//     "columns": ["method", "p", "s", "NN", ...],     first the key columns, then one per cell
//     "keys": 3,                                      how many key columns
//     "rows": [{"group": "unlearned", "keys": ["naive", "50", "-"],
//               "cells": [{"measure": "NN", "observer": "logits", "paper": 0.593, "ours": 0.571,
//                          "low": 0.55, "high": 0.59, "floor": 0.01,
//                          "paper_sd": ..., "ours_sd": ..., "digits": 3, "paper_digits": 3,
//                          "reason": "..."}]}]}]}
// A cell without a value has "reason" instead of "ours"; one without an interval may have
// "interval_reason" instead of "low" and "high"; "paper" is absent where the paper has none.
// from_json: Error{bad_input} that begins with the place; what is absent stays empty.
void to_json(nlohmann::json& json, const FailedNetwork& network);
void from_json(const nlohmann::json& json, FailedNetwork& network);
void to_json(nlohmann::json& json, const Results& results);
void from_json(const nlohmann::json& json, Results& results);

}  // namespace oubli
