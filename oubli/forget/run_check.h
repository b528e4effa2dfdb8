#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace oubli {

// What was seen when the old and the new model ran on the same inputs, each file as it is, before
// the new one got its name.
struct RunCheck {
  std::string inputs;  // "64 of 100 samples: 0 to 31, 64 to 95", "8 inputs of random numbers"
  std::size_t samples = 0;
  bool as_float = false;  // bfloat16 models, run as float32 copies
  // What the last layers read: the largest difference, in units of what rounding explains.
  double features_over_bound = 0;
  // W f + b of the new head and the old model's features against the new model's logits.
  double head_mismatch = 0;
  // On samples of the retained classes, if there are labels; the old model has all classes to
  // choose from.
  std::optional<double> kept_accuracy_before, kept_accuracy_after;
  // For methods that shift all logits alike: against the old model with the forgotten classes left
  // out. What rounding explains, and nothing else, may differ.
  bool compared_with_naive = false;
  std::size_t label_flips = 0;
  double largest_difference = 0;  // of centred logits
  double largest_ratio = 0;       // to its bound
  // Outputs of the graph: those that are what they were of the logits ("softmax of the logits"), or
  // unchanged as they must be; and those that nothing is known of.
  std::map<std::string, std::string> outputs;
  std::vector<std::string> outputs_not_compared;
};

// A check by running, or the reason why there was none.
struct RunOutcome {
  std::optional<RunCheck> check;
  std::string not_run;
};

}  // namespace oubli
