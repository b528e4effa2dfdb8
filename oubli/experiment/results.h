#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "oubli/experiment/run_folder.h"

namespace oubli {

// results.json, all that tables and the report need. No times and no names of machines: the same
// run gives the same bytes. AUDIT is what to_json(AuditResult) gives (oubli/audit/audit.h), without
// a floor of its own: the floor is the part's.
//
// {"format": "oubli-results", "version": 1,
//  "experiment": "mnist", "data_set": "mnist", "architecture": "mlp", "seed": 1,
//  "class_names": ["0", ...],
//  "config": RunConfig,
//  "failed": [{"id": "mlp50-seen-003", "reason": "..."}],
//  "parts": [
//    {"hidden": 50, "forgotten": [0],
//     "models": {"seen": 100, "unseen": 100, "second": 100},
//     "floor": AUDIT,       of the second batch of retrained networks against the first: "seen" in
//                           it is the second batch; null without one
//     "methods": [
//       {"method": "naive", "audit": AUDIT},
//       {"method": "normalization", "samples": "10", "means_from": "test", "audit": AUDIT,
//        "failed": [{"id": ..., "reason": ...}]},   networks that could not be filtered
//       {"method": "normalization", "samples": "all", "means_from": "train", ...},
//       {"method": "randomization", "samples": "all", "means_from": "test", ...},
//       {"method": "zeroing", ...}, {"method": "refit", "audit": AUDIT}]}],
//  "each_class": [          forgetting each class in turn, inputs of that class alone
//    {"hidden": 50, "forgotten": [3], "models": {"seen": 100, "unseen": 100},
//     "methods": [{"method": "naive", "audit": AUDIT}, {"method": "normalization", ...}]}],
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
[[nodiscard]] nlohmann::json assemble_results(const RunFolder& folder);

// The tables of results.json, one line per measure: paper, ours, interval, floor, and what the
// other observers get.
[[nodiscard]] std::string tables_as_text(const nlohmann::json& results);
[[nodiscard]] std::string tables_as_markdown(const nlohmann::json& results);

}  // namespace oubli
