#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/array/tensor.h"
#include "oubli/model/onnx/model.h"
#include "oubli/runtime/onnx_runtime.h"

namespace oubli {

// What a model made of a batch of samples. A row is an answer: one for each sample, or one for each
// position of each sample, sample by sample.
struct ModelOutputs {
  Matrix<float> features;  // answers x features: what the last layer reads
  Matrix<float> logits;    // answers x classes: what it makes
  // Of the graph, by name, if they were asked for: as they are, made of all that was fed.
  std::map<std::string, Tensor> values = {};
  // Of a sample, along each of their axes that is not single; none: it has one answer.
  std::vector<std::size_t> positions = {};

  [[nodiscard]] std::size_t answers_per_sample() const {
    std::size_t count = 1;
    for (const std::size_t extent : positions) count *= extent;
    return count;
  }
};

// A model file ready to run. May be used by several threads at once.
class RunnableModel {
 public:
  RunnableModel() = default;
  virtual ~RunnableModel() = default;
  RunnableModel(const RunnableModel&) = delete;
  RunnableModel& operator=(const RunnableModel&) = delete;

  // `inputs`, by name, have samples along their first axis, of which the first `samples` count.
  // With `values` also those that it was loaded with, where the engine has them.
  // Error{unfilterable} if it is not known which rows of the last layer are which sample's.
  [[nodiscard]] virtual ModelOutputs run(const std::map<std::string, TensorView>& inputs,
                                         std::size_t samples, bool values) const = 0;
  // bfloat16 models run as float32 copies.
  [[nodiscard]] virtual bool as_float() const { return false; }
};

// Something that runs models.
class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // "ONNX Runtime 1.30.0", "built in (oubli/nn)"
  [[nodiscard]] virtual std::string describe() const = 0;
  // `values` of the graph are to be had beside features and logits. Error{missing} if this engine
  // cannot run such a model.
  [[nodiscard]] virtual std::unique_ptr<RunnableModel> load(
      const OnnxModel& model, std::span<const std::string> values = {}) const = 0;
};

// The outputs of a graph that are made of numbers.
[[nodiscard]] std::vector<std::string> number_outputs(const onnx::Graph& graph);

[[nodiscard]] std::shared_ptr<const Engine> onnx_runtime_engine(
    std::shared_ptr<const OnnxRuntime> runtime);
// Networks that `oubli train` wrote, on oubli/nn.
[[nodiscard]] std::shared_ptr<const Engine> built_in_engine();
// ONNX Runtime as OnnxRuntime::open finds it; where it is not to be had and `model` is a network
// that `oubli train` wrote, the built-in one. A `library` that was asked for is never passed over.
[[nodiscard]] std::shared_ptr<const Engine> engine_for(
    const OnnxModel& model, const std::optional<std::filesystem::path>& library);

}  // namespace oubli
