#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "oubli/filtration/filter.h"
#include "oubli/forget/run_check.h"
#include "oubli/model/onnx/model.h"
#include "oubli/runtime/engine.h"

namespace oubli {

// Compares what two models made of the same batches.
class RunComparison {
 public:
  // All of these must outlive it.
  RunComparison(const OnnxModel& old_model, const OnnxModel& new_model, const HeadFilter& filter,
                const HeadRounding& rounding);

  // `labels`: of the answers, in the old model's numbering; empty if there are none.
  void add(const ModelOutputs& before, const ModelOutputs& after,
           std::span<const std::uint32_t> labels);
  // Error{self_check} if the new model does not compute what it should.
  [[nodiscard]] RunCheck finish() const;

 private:
  // What an output may be of the logits, as bits of a set.
  using Functions = unsigned;
  struct Seen {
    Functions before, after;
  };

  void compare_features(const ModelOutputs& before, const ModelOutputs& after);
  void compare_logits(const ModelOutputs& before, const ModelOutputs& after);
  void count_right(const ModelOutputs& before, const ModelOutputs& after,
                   std::span<const std::uint32_t> labels);
  void compare_outputs(const ModelOutputs& before, const ModelOutputs& after);

  const OnnxModel& old_model_;
  const OnnxModel& new_model_;
  const HeadFilter& filter_;
  const HeadRounding& stored_rounding_;
  RunCheck check_;
  double rounding_;  // of what the models compute with
  std::size_t kept_ = 0, right_before_ = 0, right_after_ = 0;
  struct Axes {
    std::optional<std::size_t> classes, samples;
  };
  std::map<std::string, Axes> axes_;  // of values behind the logits
  std::set<std::string> ran_outputs_;
  std::map<std::string, Seen> seen_;             // outputs that come from the logits
  std::map<std::string, double> other_outputs_;  // the others: largest difference over its bound
};

}  // namespace oubli
