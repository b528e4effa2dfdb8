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

// What the model's input takes. Error{unfilterable} if it takes anything but one input of numbers.
[[nodiscard]] InputShape input_shape(const onnx::Model& model);

// Runs a classifier on samples: prepares them and cuts them into batches.
class ModelRunner {
 public:
  static constexpr std::size_t kLargestBatch = 32;

  // Error{unfilterable} if the model takes anything but one input; Error{usage} if it must be told
  // how to prepare samples like `example`. `values` of the graph are to be had, too.
  ModelRunner(const Engine& engine, const OnnxModel& model, const PreparationOptions& options,
              const Sample& example, std::span<const std::string> values = {});

  // May be called from several threads. Error{unfilterable} if it is not known which rows of the
  // last layer are which sample's.
  [[nodiscard]] ModelOutputs run(std::span<const Sample> samples, bool values = false) const;

  // So many samples go through the model at once: few where it makes much of each, so that a batch
  // takes kBatchBytes at most, as far as the file tells.
  [[nodiscard]] std::size_t batch() const { return batch_; }
  // The first axis of what the model is given of `samples` samples at once: as many, or its own
  // fixed number. Values are those of one such run.
  [[nodiscard]] std::size_t fed(std::size_t samples) const {
    return fixed_batch_ == 0 ? samples : fixed_batch_;
  }

  // All samples of `indices`, in that order, `consume`d in order, one call at a time: batches of
  // `batch` run side by side, a few ahead of what was consumed, so memory does not grow with their
  // number. Workers decode while others run. `wanted` says whether values are wanted of the
  // batch that begins there. Says what was done to images.
  using Consume = std::function<void(std::size_t first, ModelOutputs batch)>;
  using Wanted = std::function<bool(std::size_t first)>;
  ImageChanges run_all(const SampleSource& source, std::span<const std::size_t> indices,
                       std::size_t batch, unsigned workers, const Wanted& wanted,
                       const Consume& consume, const std::string& label,
                       const std::stop_token& stop = {}) const;

  [[nodiscard]] std::string preparation() const { return preparation_.describe(); }
  [[nodiscard]] PreparationOptions preparation_as_used() const { return preparation_.as_used(); }
  // bfloat16 models run as float32 copies.
  [[nodiscard]] bool as_float() const { return model_->as_float(); }

 private:
  // Writes the numbers of sample i of a batch.
  using Write = std::function<void(std::size_t i, std::span<std::byte> out)>;
  [[nodiscard]] ModelOutputs run_written(std::size_t count, const Write& write, bool values) const;

  onnx::ValueInfo input_;
  Preparation preparation_;
  std::size_t fixed_batch_;  // 0: any
  std::size_t batch_;
  std::unique_ptr<RunnableModel> model_;
};

// W f + b against the logits the model made: the largest difference over the bound that rounding
// explains (eps (sqrt(features) + 8) (|W||f| + |b|), and near 0 half the smallest positive number
// of the type times |f|_1 + 1). Above 1 the layer is not what it seems. Where the graph rounds the
// product or the logits to 8 bits, half a step of each comes to the bound.
[[nodiscard]] double head_mismatch(const HeadView& head, const ModelOutputs& batch,
                                   const OnnxRoundings& rounding = {});

}  // namespace oubli
