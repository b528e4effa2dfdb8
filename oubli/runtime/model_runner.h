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
#include "oubli/runtime/engine.h"

namespace oubli {

// Runs a classifier on samples: prepares them and cuts them into batches.
class ModelRunner {
 public:
  static constexpr std::size_t kBatch = 32;

  // Error{unfilterable} if the model takes anything but one input; Error{usage} if it must be told
  // how to prepare samples like `example`.
  ModelRunner(const Engine& engine, const OnnxModel& model, const PreparationOptions& options,
              const Sample& example);

  // May be called from several threads. Error{unfilterable} if the layer does not work on one row
  // per sample.
  [[nodiscard]] ModelOutputs run(std::span<const Sample> samples, bool all_outputs = false) const;

  // All samples of `indices`, in that order, `consume`d in order by the calling thread: batches of
  // kBatch run side by side, a few at a time, so memory does not grow with their number. `wanted`
  // says whether all outputs are wanted of the batch that begins there.
  using Consume = std::function<void(std::size_t first, ModelOutputs batch)>;
  using Wanted = std::function<bool(std::size_t first)>;
  void run_all(const SampleSource& source, std::span<const std::size_t> indices, unsigned workers,
               const Wanted& wanted, const Consume& consume, const std::string& label,
               const std::stop_token& stop = {}) const;

  [[nodiscard]] std::string preparation() const { return preparation_.describe(); }
  [[nodiscard]] PreparationOptions preparation_as_used() const { return preparation_.as_used(); }
  // bfloat16 models run as float32 copies.
  [[nodiscard]] bool as_float() const { return model_->as_float(); }

 private:
  onnx::ValueInfo input_;
  Preparation preparation_;
  std::size_t fixed_batch_;  // 0: any
  std::unique_ptr<RunnableModel> model_;
};

// W f + b against the logits the model made: the largest difference over the bound that rounding
// explains (eps (sqrt(features) + 8) (|W||f| + |b|), and near 0 half the smallest positive number
// of the type times |f|_1 + 1). Above 1 the layer is not what it seems.
[[nodiscard]] double head_mismatch(const HeadView& head, const ModelOutputs& batch);

}  // namespace oubli
