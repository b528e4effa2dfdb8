#include "oubli/runtime/engine.h"

#include <algorithm>
#include <mutex>

#include "oubli/base/progress.h"
#include "oubli/model/onnx/probe.h"
#include "oubli/nn/network_file.h"
#include "oubli/runtime/rows.h"

namespace oubli {

namespace {

// What the layer reads or makes, a row for each answer, of the first `samples` of `fed` inputs. The
// positions of a sample are rows of their own, or averaged.
struct Answers {
  Matrix<float> rows;
  std::vector<std::size_t> positions;
};
Answers answers_in(const Tensor& tensor, OnnxRows where, bool per_position, std::size_t samples,
                   std::size_t fed, std::size_t width, const std::string& what) {
  std::vector<std::size_t> shape = tensor.shape;
  if (where.entries >= shape.size() || shape[where.entries] != width ||
      where.samples.value_or(0) >= shape.size())
    fail(ErrorCode::unfilterable, "{}: {}, wanted {} along axis {}", what,
         describe(tensor.view(what)), width, where.entries);
  if (where.with_positions && where.samples && shape[*where.samples] % fed == 0) {
    const auto axis = shape.begin() + static_cast<std::ptrdiff_t>(*where.samples);
    const std::size_t positions = *axis / fed;
    *axis = fed;
    shape.insert(axis + 1, positions);
    if (where.entries > *where.samples) ++where.entries;
  }
  // Anything but the rows of each sample would give one the rows of another.
  if (where.samples && shape[*where.samples] != fed)
    fail(ErrorCode::unfilterable,
         "{}: {} rows for {} inputs, wanted one each, or an axis for positions: which answers are "
         "whose cannot be told",
         what, shape[*where.samples], fed);
  if (!where.samples && fed != 1 && (!per_position || samples != fed))
    fail(ErrorCode::unfilterable,
         "{}: {}: which axis counts the {} inputs is not known; store the shapes in the file with "
         "ONNX shape inference",
         what, describe(tensor.view(what)), fed);
  std::vector<float> values(element_count(shape, what));
  decode(tensor.dtype, tensor.bytes, std::span<float>(values));
  RowPlaces places = rows_in(shape, where.entries, where.samples);
  const std::size_t each = where.samples ? places.starts.size() / fed : places.starts.size();
  const std::size_t averaged = per_position ? 1 : each;
  const std::size_t count = where.samples && per_position ? samples * each
                            : where.samples               ? samples
                                                          : places.starts.size() / averaged;
  Answers answers{Matrix<float>(count, width), {}};
  if (per_position) answers.positions = std::move(places.positions);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < width; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < averaged; ++k)
        sum += static_cast<double>(values[places.starts[i * averaged + k] + j * places.stride]);
      answers.rows(i, j) = static_cast<float>(sum / static_cast<double>(averaged));
    }
  }
  return answers;
}

class RuntimeModel final : public RunnableModel {
 public:
  RuntimeModel(std::shared_ptr<const OnnxRuntime> runtime, const OnnxModel& model,
               std::span<const std::string> values)
      : RuntimeModel(std::move(runtime), model, make_probe(model, values), values) {}

  [[nodiscard]] bool as_float() const override { return as_float_; }

  [[nodiscard]] ModelOutputs run(const std::map<std::string, TensorView>& inputs,
                                 std::size_t samples, bool values) const override {
    std::vector<OnnxSession::Input> in;
    for (const auto& [name, value] : inputs) in.push_back({name, value});
    std::vector<std::string> names{features_name_, logits_name_};
    if (values) names.insert(names.end(), values_.begin(), values_.end());
    std::vector<Tensor> made = session_.run(in, names);
    const std::size_t fed = inputs.begin()->second.shape.at(0);
    Answers features = answers_in(made[0], feature_rows_, per_position_, samples, fed, features_,
                                  fmt::format("{}: '{}'", what_, features_name_));
    Answers logits = answers_in(made[1], logit_rows_, per_position_, samples, fed, classes_,
                                fmt::format("{}: '{}'", what_, logits_name_));
    if (features.rows.rows() != logits.rows.rows())
      fail(ErrorCode::unfilterable, "{}: '{}' has {} rows and '{}' {}", what_, features_name_,
           features.rows.rows(), logits_name_, logits.rows.rows());
    ModelOutputs result{std::move(features.rows), std::move(logits.rows)};
    result.positions = std::move(logits.positions);
    for (std::size_t i = 2; i < names.size(); ++i)
      result.values.emplace(names[i], std::move(made[i]));
    return result;
  }

 private:
  RuntimeModel(std::shared_ptr<const OnnxRuntime> runtime, const OnnxModel& model,
               const OnnxProbe& probe, std::span<const std::string> values)
      : what_(model.model().what()),
        features_name_(probe.features),
        logits_name_(probe.logits),
        as_float_(probe.as_float),
        features_(model.head().features()),
        classes_(model.head().classes()),
        feature_rows_(model.onnx_head().feature_rows),
        logit_rows_(model.onnx_head().logit_rows),
        per_position_(model.onnx_head().per_position),
        values_(values.begin(), values.end()),
        session_(std::move(runtime), probe.bytes, model.model().folder(), what_) {}

  std::string what_, features_name_, logits_name_;
  bool as_float_;
  std::size_t features_, classes_;
  OnnxRows feature_rows_, logit_rows_;
  bool per_position_;
  std::vector<std::string> values_;  // to be had beside features and logits
  OnnxSession session_;
};

class RuntimeEngine final : public Engine {
 public:
  explicit RuntimeEngine(std::shared_ptr<const OnnxRuntime> runtime)
      : runtime_(std::move(runtime)) {}
  [[nodiscard]] std::string describe() const override {
    return fmt::format("ONNX Runtime {}", runtime_->version());
  }
  [[nodiscard]] std::unique_ptr<RunnableModel> load(
      const OnnxModel& model, std::span<const std::string> values) const override {
    return std::make_unique<RuntimeModel>(runtime_, model, values);
  }

 private:
  std::shared_ptr<const OnnxRuntime> runtime_;
};

// A network computes for one thread at a time: every caller borrows a copy.
class NetworkModel final : public RunnableModel {
 public:
  explicit NetworkModel(nn::Network network) : original_(std::move(network)) {}

  [[nodiscard]] ModelOutputs run(const std::map<std::string, TensorView>& inputs,
                                 std::size_t samples, bool /*values*/) const override {
    const TensorView& images = inputs.begin()->second;
    std::vector<float> values(images.count());
    decode(images.dtype, images.bytes, std::span<float>(values));
    const std::size_t rows = images.shape.at(0);
    std::unique_ptr<nn::Network> copy = borrow();
    nn::Network::Outputs made = copy->outputs(
        MatrixView<const float>(values.data(), rows, values.size() / rows).middle_rows(0, samples));
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(copy));
    return {std::move(made.features), std::move(made.logits)};
  }

 private:
  std::unique_ptr<nn::Network> borrow() const {
    const std::scoped_lock lock(mutex_);
    if (idle_.empty()) return std::make_unique<nn::Network>(original_);
    std::unique_ptr<nn::Network> copy = std::move(idle_.back());
    idle_.pop_back();
    return copy;
  }

  const nn::Network original_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<nn::Network>> idle_;
};

class NetworkEngine final : public Engine {
 public:
  [[nodiscard]] std::string describe() const override { return "built in (oubli/nn)"; }
  [[nodiscard]] std::unique_ptr<RunnableModel> load(
      const OnnxModel& model, std::span<const std::string> /*values*/) const override {
    std::optional<nn::NamedNetwork> own = nn::network_in(model.model());
    if (!own)
      fail(ErrorCode::missing, "{}: needs ONNX Runtime; run 'oubli get-runtime'",
           model.model().what());
    return std::make_unique<NetworkModel>(std::move(own->network));
  }
};

}  // namespace

std::vector<std::string> number_outputs(const onnx::Graph& graph) {
  std::vector<std::string> names;
  for (const onnx::ValueInfo& output : graph.outputs)
    if (onnx::dtype_of(output.element_type)) names.push_back(output.name);
  return names;
}

std::shared_ptr<const Engine> onnx_runtime_engine(std::shared_ptr<const OnnxRuntime> runtime) {
  return std::make_shared<const RuntimeEngine>(std::move(runtime));
}

std::shared_ptr<const Engine> built_in_engine() { return std::make_shared<const NetworkEngine>(); }

std::shared_ptr<const Engine> engine_for(const OnnxModel& model,
                                         const std::optional<std::filesystem::path>& library) {
  try {
    return onnx_runtime_engine(OnnxRuntime::open(library));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::missing || library || !nn::network_in(model.model())) throw;
    say_detail(fmt::format("{}; running the network on oubli/nn", error.what()));
    return built_in_engine();
  }
}

}  // namespace oubli
