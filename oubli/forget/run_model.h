#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "oubli/audit/alignment.h"
#include "oubli/data/preparation.h"
#include "oubli/data/samples.h"
#include "oubli/forget/calibration.h"
#include "oubli/forget/run_check.h"
#include "oubli/model/model_file.h"

namespace oubli {

class ModelRunner;    // oubli/runtime/model_runner.h
class ScratchFile;    // oubli/base/scratch_file.h
struct ModelOutputs;  // oubli/runtime/engine.h

struct RunOptions {
  std::string data;                              // what SampleSource::open takes
  std::vector<std::string> leave_out = {};       // classes of it that are no longer the model's
  std::optional<std::filesystem::path> runtime;  // the library of ONNX Runtime
  PreparationOptions preparation;
  // An .onnx file of the same model, to run in its place.
  std::optional<std::filesystem::path> run_with = {};
};

// What was seen when the model ran on data, before anything was edited.
struct RunReport {
  std::string data;
  std::string labels;       // how classes were matched
  std::string preparation;  // how inputs were made
  PreparationOptions preparation_as_used;
  std::string published;     // what a file beside the model, or its metadata, had to do with that
  ImageChanges changes;      // what was done to images so that they fit
  std::string runtime;       // name and version
  std::string instructions;  // of the processor, as far as the built-in engine uses them
  bool as_float = false;     // a bfloat16 model, run as a float32 copy
  std::size_t samples = 0;
  std::vector<std::size_t> positions;  // of a sample, if it has an answer for each
  std::size_t left_out = 0;            // answers that have no label
  double accuracy = 0;
  std::vector<double> class_accuracy;  // NaN for a class without samples
  double head_mismatch = 0;            // W f + b against the logits, in units of its bound
};

// A model run on data: the features of all answers that have a label, one of each sample or one of
// each of its positions, in a temporary file (memory does not grow with their number); of some
// samples all that it made, and what is needed to run its successor on them.
class CalibrationRun {
 public:
  // Error{unfilterable} if the last layer is not what it seems: W f + b is not what the model
  // computes; {bad_input} if the file to run with has another last layer, or samples have more or
  // fewer labels than answers. `model` must outlive it.
  CalibrationRun(const ModelFile& model, const RunOptions& options,
                 std::span<const std::string> class_names, const std::stop_token& stop = {});

  ~CalibrationRun();
  CalibrationRun(const CalibrationRun&) = delete;
  CalibrationRun& operator=(const CalibrationRun&) = delete;

  [[nodiscard]] const RunReport& report() const { return report_; }
  [[nodiscard]] const CalibrationData& calibration() const { return calibration_; }
  // Another file was run in the model's place, so that its successor cannot be run either.
  [[nodiscard]] bool stands_in() const { return stand_in_ != nullptr; }
  // Error{unfilterable} if labels are likely not what the model means by them (alignment.h).
  void check_alignment(std::span<const std::size_t> forget,
                       std::span<const std::string> class_names) const;
  [[nodiscard]] const SampleSource& source() const { return *source_; }
  // Runs another model on all samples, with the same engine and inputs made in the same way:
  // `consume` gets what it made of them in order.
  void run_all(const ModelFile& model,
               const std::function<void(std::size_t first, const ModelOutputs& batch)>& consume,
               const std::stop_token& stop = {}) const;
  // Runs the staged model on the same batches. Error{self_check} if it does not compute what it
  // should.
  [[nodiscard]] RunCheck check(const StagedModel& staged, const HeadFilter& filter,
                               const HeadRounding& rounding,
                               const std::stop_token& stop = {}) const;

 private:
  struct State;  // the model, what runs it, and what it made of the batches for check()
  void describe(const ModelRunner& runner, const Sample& example);
  void run_source(const ModelRunner& runner, const std::stop_token& stop);
  void take(std::size_t first, const ModelOutputs& batch, ScratchFile& features);

  RunOptions options_;
  std::unique_ptr<ModelFile> stand_in_;
  std::shared_ptr<const SampleSource> source_;
  RunReport report_;
  Confusion confusion_;
  CalibrationData calibration_;
  std::unique_ptr<State> state_;
};

}  // namespace oubli
