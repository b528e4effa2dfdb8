#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "oubli/data/preparation.h"
#include "oubli/data/samples.h"
#include "oubli/forget/calibration.h"
#include "oubli/model/model_file.h"
#include "oubli/runtime/onnx_runtime.h"

namespace oubli {

struct RunOptions {
  std::string data;                              // what SampleSource::open takes
  std::vector<std::string> leave_out = {};       // classes of it that are no longer the model's
  std::optional<std::filesystem::path> runtime;  // the library of ONNX Runtime
  PreparationOptions preparation;
  std::size_t check_samples = 2000;  // that the new model is run on
};

// What was seen when the model ran on data, before anything was edited.
struct RunReport {
  std::string data;
  std::string labels;       // how classes were matched
  std::string preparation;  // how inputs were made
  PreparationOptions preparation_as_used;
  std::string runtime;       // name and version
  std::string instructions;  // of the processor, as far as the built-in engine uses them
  bool as_float = false;     // a bfloat16 model, run as a float32 copy
  std::size_t samples = 0;
  double accuracy = 0;
  std::vector<double> class_accuracy;  // NaN for a class without samples
  double head_mismatch = 0;            // W f + b against the logits, in units of its bound
};

// What was seen when the new model ran, before it got its name.
struct RunCheck {
  std::size_t samples = 0;
  double head_mismatch = 0;
  double kept_accuracy_before =
      0;  // on samples of the retained classes, all classes to choose from
  double kept_accuracy_after = 0;
  // For methods that shift all logits alike: against the old model with the forgotten classes left
  // out. What rounding explains, and nothing else, may differ.
  bool compared_with_naive = false;
  std::size_t label_flips = 0;
  double largest_difference = 0;  // of centred logits
  double largest_ratio = 0;       // to its bound
  bool as_float = false;
};

// Whether a model that is right so often may as well be guessing. Half of the samples or more is
// not guessed, however few they are.
[[nodiscard]] bool near_chance(double accuracy, std::size_t classes, std::size_t samples);

// A model run on data: the features of all samples, in a temporary file (memory does not grow with
// their number), and what is needed to run its successor on the same data.
class ModelRun {
 public:
  // Error{unfilterable} if the last layer is not what it seems: W f + b is not what the model
  // computes.
  ModelRun(const ModelFile& model, const RunOptions& options,
           std::span<const std::string> class_names, const std::stop_token& stop = {});

  [[nodiscard]] const RunReport& report() const { return report_; }
  [[nodiscard]] const CalibrationData& calibration() const { return calibration_; }
  // Error{unfilterable} if the model is near chance, or wrong about most samples of a
  // class to be forgotten: then the labels are likely not what the model means by them.
  void check_alignment(std::span<const std::size_t> forget,
                       std::span<const std::string> class_names) const;
  // Runs the staged model. Error{self_check} if it does not compute what it should.
  [[nodiscard]] RunCheck check(const StagedModel& staged, const HeadView& old_head,
                               const HeadFilter& filter, const std::stop_token& stop = {}) const;

 private:
  RunOptions options_;
  std::shared_ptr<const SampleSource> source_;
  std::shared_ptr<const OnnxRuntime> runtime_;
  RunReport report_;
  CalibrationData calibration_;
};

}  // namespace oubli
