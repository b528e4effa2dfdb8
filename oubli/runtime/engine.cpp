#include "oubli/runtime/engine.h"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "oubli/base/progress.h"
#include "oubli/model/onnx/probe.h"
#include "oubli/nn/network_file.h"

namespace oubli {

namespace {

// A tensor whose axis `axis` counts `width` things, as samples x width; other axes are averaged if
// they come after it (positions of a map), and must be single otherwise. It was made from `fed`
// inputs, the first `samples` of which are samples; anything but one row for each of them would
// give a sample the row of another.
Matrix<float> rows_of(const Tensor& tensor, std::size_t axis, bool rows_last, std::size_t samples,
                      std::size_t fed, std::size_t width, const std::string& what) {
  std::vector<float> values(element_count(tensor.shape, what));
  decode(tensor.dtype, tensor.bytes, std::span<float>(values));
  const auto product = [&](std::size_t begin, std::size_t end) {
    return std::accumulate(tensor.shape.begin() + static_cast<std::ptrdiff_t>(begin),
                           tensor.shape.begin() + static_cast<std::ptrdiff_t>(end), std::size_t{1},
                           std::multiplies<>());
  };
  if (axis >= tensor.shape.size() || tensor.shape[axis] != width) {
    fail(ErrorCode::unfilterable, "{}: {}, wanted {} along axis {}", what,
         describe(tensor.view(what)), width, axis);
  }
  const std::size_t before = product(0, axis);
  const std::size_t after = product(axis + 1, tensor.shape.size());
  Matrix<float> rows(samples, width);
  if (rows_last) {  // features x samples
    if (before != 1 || after != fed) {
      fail(ErrorCode::unfilterable, "{}: {} columns for {} inputs, wanted one each", what, after,
           fed);
    }
    for (std::size_t i = 0; i < samples; ++i) {
      for (std::size_t j = 0; j < width; ++j) rows(i, j) = values[j * after + i];
    }
    return rows;
  }
  if (before != fed) {
    fail(ErrorCode::unfilterable,
         "{}: {} rows for {} inputs, wanted one each: one answer per position, not per sample",
         what, before, fed);
  }
  for (std::size_t i = 0; i < samples; ++i) {
    for (std::size_t j = 0; j < width; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < after; ++k)
        sum += static_cast<double>(values[(i * width + j) * after + k]);
      rows(i, j) = static_cast<float>(sum / static_cast<double>(after));
    }
  }
  return rows;
}

class RuntimeModel final : public RunnableModel {
 public:
  RuntimeModel(std::shared_ptr<const OnnxRuntime> runtime, const OnnxModel& model)
      : RuntimeModel(std::move(runtime), model, make_probe(model)) {}

  [[nodiscard]] bool as_float() const override { return as_float_; }

  [[nodiscard]] ModelOutputs run(const std::map<std::string, TensorView>& inputs,
                                 std::size_t samples, bool all_outputs) const override {
    std::vector<OnnxSession::Input> in;
    for (const auto& [name, value] : inputs) in.push_back({name, value});
    std::vector<std::string> names{features_name_, logits_name_};
    if (all_outputs) names.insert(names.end(), outputs_.begin(), outputs_.end());
    std::vector<Tensor> values = session_.run(in, names);
    const std::size_t rank = values[0].shape.size();
    const std::size_t feature_axis = kind_ == OnnxHead::Kind::conv ? 1
                                     : columns_ && rank >= 2       ? rank - 2
                                                                   : rank - 1;
    const bool logit_columns = columns_ && kind_ == OnnxHead::Kind::matmul;
    const std::size_t fed = inputs.begin()->second.shape.at(0);
    ModelOutputs result{rows_of(values[0], feature_axis, columns_, samples, fed, features_,
                                fmt::format("{}: '{}'", what_, features_name_)),
                        rows_of(values[1], logits_axis_, logit_columns, samples, fed, classes_,
                                fmt::format("{}: '{}'", what_, logits_name_))};
    for (std::size_t i = 2; i < names.size(); ++i)
      result.outputs.emplace(names[i], std::move(values[i]));
    return result;
  }

 private:
  RuntimeModel(std::shared_ptr<const OnnxRuntime> runtime, const OnnxModel& model,
               const OnnxProbe& probe)
      : what_(model.model().what()),
        features_name_(probe.features),
        logits_name_(probe.logits),
        as_float_(probe.as_float),
        features_(model.head().features()),
        classes_(model.head().classes()),
        kind_(model.onnx_head().kind),
        columns_(model.onnx_head().columns),
        logits_axis_(model.onnx_head().logits_axis),
        session_(std::move(runtime), probe.bytes, model.model().folder(), what_) {
    for (const onnx::ValueInfo& output : model.model().graph().outputs)
      if (onnx::dtype_of(output.element_type)) outputs_.push_back(output.name);
  }

  std::string what_, features_name_, logits_name_;
  bool as_float_;
  std::size_t features_, classes_;
  OnnxHead::Kind kind_;
  bool columns_;
  std::size_t logits_axis_;
  std::vector<std::string> outputs_;  // of the graph, those made of numbers
  OnnxSession session_;
};

class RuntimeEngine final : public Engine {
 public:
  explicit RuntimeEngine(std::shared_ptr<const OnnxRuntime> runtime)
      : runtime_(std::move(runtime)) {}
  [[nodiscard]] std::string describe() const override {
    return fmt::format("ONNX Runtime {}", runtime_->version());
  }
  [[nodiscard]] std::unique_ptr<RunnableModel> load(const OnnxModel& model) const override {
    return std::make_unique<RuntimeModel>(runtime_, model);
  }

 private:
  std::shared_ptr<const OnnxRuntime> runtime_;
};

// A network computes for one thread at a time: every caller borrows a copy.
class NetworkModel final : public RunnableModel {
 public:
  explicit NetworkModel(nn::Network network) : original_(std::move(network)) {}

  [[nodiscard]] ModelOutputs run(const std::map<std::string, TensorView>& inputs,
                                 std::size_t samples, bool /*all_outputs*/) const override {
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
  [[nodiscard]] std::unique_ptr<RunnableModel> load(const OnnxModel& model) const override {
    std::optional<nn::NamedNetwork> own = nn::network_in(model.model());
    if (!own)
      fail(ErrorCode::missing, "{}: needs ONNX Runtime; run 'oubli get-runtime'",
           model.model().what());
    return std::make_unique<NetworkModel>(std::move(own->network));
  }
};

}  // namespace

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
