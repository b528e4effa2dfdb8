#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "oubli/array/matrix.h"
#include "oubli/data/preparation.h"
#include "oubli/data/samples.h"
#include "oubli/model/onnx/model.h"
#include "oubli/runtime/onnx_runtime.h"

namespace oubli {

// Runs a classifier on samples for what its last layer reads (features) and makes (logits).
class ModelRunner {
 public:
  // Without a `runtime` only networks that `oubli train` wrote can run, on oubli/nn; Error{missing}
  // for others. Error{unfilterable} if the model takes anything but one input; Error{usage} if it
  // must be told how to prepare samples like `example`.
  ModelRunner(std::shared_ptr<const OnnxRuntime> runtime, const OnnxModel& model,
              const PreparationOptions& options, const Sample& example);
  ~ModelRunner();
  ModelRunner(const ModelRunner&) = delete;
  ModelRunner& operator=(const ModelRunner&) = delete;

  struct Batch {
    Matrix<float> features;  // samples x features
    Matrix<float> logits;    // samples x classes
  };
  // May be called from several threads. Error{unfilterable} if the layer does not work on one row
  // per sample.
  [[nodiscard]] Batch run(std::span<const Sample> samples) const;

  // All samples of `indices`, in that order, `consume`d in order by the calling thread: batches run
  // side by side, a few at a time, so memory does not grow with their number.
  void run_all(const SampleSource& source, std::span<const std::size_t> indices, unsigned workers,
               const std::function<void(std::size_t first, const Batch& batch)>& consume,
               const std::string& label, const std::stop_token& stop = {}) const;

  [[nodiscard]] std::string preparation() const;
  [[nodiscard]] PreparationOptions preparation_as_used() const;
  // bfloat16 models run as float32 copies.
  [[nodiscard]] bool as_float() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// ONNX Runtime as OnnxRuntime::open finds it; where it is not to be had and `model` is a network
// that `oubli train` wrote, nothing, for ModelRunner to run it on oubli/nn. A `path` that was asked
// for is never passed over.
[[nodiscard]] std::shared_ptr<const OnnxRuntime> runtime_for(
    const OnnxModel& model, const std::optional<std::filesystem::path>& path);
// "ONNX Runtime 1.30.0", "built in (oubli/nn)"
[[nodiscard]] std::string describe_runtime(const std::shared_ptr<const OnnxRuntime>& runtime);

// W f + b against the logits the model made: the largest difference over the bound that rounding
// explains (eps (sqrt(features) + 8) (|W||f| + |b|), and near 0 half the smallest positive number
// of the type times |f|_1 + 1). Above 1 the layer is not what it seems.
[[nodiscard]] double head_mismatch(const HeadView& head, const ModelRunner::Batch& batch);

}  // namespace oubli
