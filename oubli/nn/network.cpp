#include "oubli/nn/network.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "oubli/base/error.h"
#include "oubli/base/random.h"
#include "oubli/nn/executor.h"
#include "oubli/nn/fold.h"
#include "oubli/nn/images.h"

namespace oubli::nn {
namespace {

// [Glorot, Bengio 2010]: uniform in +-sqrt(6 / (fan in + fan out)).
void fill_glorot(Parameter& parameter, RandomStream& random) {
  std::size_t window = 1;
  for (std::size_t d = 2; d < parameter.shape.size(); ++d) window *= parameter.shape[d];
  const auto fans = static_cast<double>((parameter.shape[0] + parameter.shape[1]) * window);
  const double limit = std::sqrt(6.0 / fans);
  for (float& value : parameter.values)
    value = static_cast<float>((2 * random.uniform() - 1) * limit);
}

std::size_t element_count_of(const Parameter& parameter) {
  std::size_t count = 1;
  for (const std::size_t size : parameter.shape) count *= size;
  return count;
}

// Few images at a time, so that what one layer writes is still near when the next reads it, but
// enough to use a dense layer's weights more than once. Measured: docs/internals/training.md.
std::size_t inference_batch(const Graph& graph, std::size_t images) {
  std::size_t largest = 1;
  for (const Shape& shape : graph.values) largest = std::max(largest, shape.size());
  const std::size_t fitting = std::size_t{1} << 19;
  const std::size_t batch = std::clamp<std::size_t>(fitting / largest / 8 * 8, 8, 256);
  return std::min(batch, std::max<std::size_t>(1, images));
}

}  // namespace

// Executors of the folded network, by batch size, and its parameters.
class Network::Engine {
 public:
  Engine(const NetworkSpec& spec, const std::vector<Parameter>& parameters)
      : folded_(fold_batch_norm(spec, parameters)), graph_(compile(folded_.spec)) {}

  // fill(first, count, target) writes images in NHWC.
  using Fill = std::function<void(std::size_t first, std::size_t count, float* target)>;

  // `direct`: the images themselves, if they need no conversion; else null.
  Outputs run(std::size_t images, const Fill& fill, const float* direct = nullptr) {
    const SingleThread single;
    const Shape features = graph_.values[graph_.features];
    const Shape logits = graph_.values[graph_.ops.back().output];
    Outputs result{Matrix<float>(images, features.size()), Matrix<float>(images, logits.size())};
    const std::size_t batch = inference_batch(graph_, images);
    for (std::size_t first = 0; first < images; first += batch) {
      const std::size_t count = std::min(batch, images - first);
      Unit& unit = unit_for(count, Executor::Mode::inference);
      if (direct != nullptr)
        unit.executor.set_input(direct + first * graph_.values.front().size());
      else
        fill(first, count, unit.executor.input().data());
      unit.executor.forward(unit.store);
      to_channels_first(features, count, unit.executor.features().data(),
                        result.features.row(first).data());
      to_channels_first(logits, count, unit.executor.logits().data(),
                        result.logits.row(first).data());
    }
    return result;
  }

  Matrix<float> input_gradient(std::size_t images, const Fill& fill,
                               MatrixView<const float> dlogits) {
    const SingleThread single;
    const Shape shape = graph_.values.front();
    Matrix<float> result(images, shape.size());
    const std::size_t batch = inference_batch(graph_, images);
    for (std::size_t first = 0; first < images; first += batch) {
      const std::size_t count = std::min(batch, images - first);
      Unit& unit = unit_for(count, Executor::Mode::input_gradient);
      fill(first, count, unit.executor.input().data());
      unit.executor.forward(unit.store);
      std::ranges::copy(dlogits.middle_rows(first, count).flat(),
                        unit.executor.logits_gradient().begin());
      unit.executor.backward(unit.store, nullptr);
      to_channels_first(shape, count, unit.executor.input_gradient().data(),
                        result.row(first).data());
    }
    return result;
  }

 private:
  struct Unit {
    Executor executor;
    ParameterStore store;
    Executor::Mode mode;
  };

  // At most one whole and one partial batch size of each mode are kept.
  Unit& unit_for(std::size_t count, Executor::Mode mode) {
    for (Unit& unit : units_)
      if (unit.executor.batch() == count && unit.mode == mode) return unit;
    if (units_.size() >= 4) units_.erase(units_.begin());
    Executor executor(graph_, count, mode);
    ParameterStore store = executor.import_parameters(folded_.parameters);
    executor.prepare(store);
    return units_.emplace_back(Unit{std::move(executor), std::move(store), mode});
  }

  Folded folded_;
  Graph graph_;
  std::vector<Unit> units_;
};

Network::Network(NetworkSpec spec, std::uint64_t seed, std::uint64_t model)
    : spec_(std::move(spec)), parameters_(compile(spec_).parameters) {
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    Parameter& parameter = parameters_[p];
    const bool ones = parameter.role == Parameter::Role::scale ||
                      parameter.role == Parameter::Role::running_variance;
    parameter.values.assign(element_count_of(parameter), ones ? 1.0F : 0.0F);
    if (parameter.role != Parameter::Role::weight) continue;
    RandomStream random(seed, task_id("initialise", {model, p}));
    fill_glorot(parameter, random);
  }
}

Network::Network(NetworkSpec spec, std::vector<Parameter> parameters)
    : spec_(std::move(spec)), parameters_(std::move(parameters)) {
  const std::vector<Parameter> wanted = compile(spec_).parameters;
  if (parameters_.size() != wanted.size())
    fail(ErrorCode::bad_input, "network: {} parameters, its layers want {}", parameters_.size(),
         wanted.size());
  for (std::size_t p = 0; p < wanted.size(); ++p)
    if (parameters_[p].name != wanted[p].name || parameters_[p].role != wanted[p].role ||
        parameters_[p].shape != wanted[p].shape ||
        parameters_[p].values.size() != element_count_of(wanted[p]))
      fail(ErrorCode::bad_input, "network: parameter {} does not fit the layers' {}",
           parameters_[p].name, wanted[p].name);
}

Network::~Network() = default;
Network::Network(const Network& other) : spec_(other.spec_), parameters_(other.parameters_) {}
Network::Network(Network&& other) noexcept = default;
Network& Network::operator=(Network other) noexcept {
  std::swap(spec_, other.spec_);
  std::swap(parameters_, other.parameters_);
  std::swap(engine_, other.engine_);
  return *this;
}

Network::Engine& Network::engine() const {
  if (!engine_) engine_ = std::make_unique<Engine>(spec_, parameters_);
  return *engine_;
}

namespace {

Shape image_shape(const NetworkSpec& spec) {
  return {spec.channels, spec.height, spec.width, false};
}

bool channels_first_is_last(const NetworkSpec& spec) {
  return spec.channels == 1 || spec.height * spec.width == 1;
}

auto fill_from(const NetworkSpec& spec, const ImageSet& images) {
  if (images.channels != spec.channels || images.height != spec.height ||
      images.width != spec.width)
    fail(ErrorCode::bad_input, "{}: images of {} x {} x {}, the network wants {} x {} x {}",
         images.name, images.channels, images.height, images.width, spec.channels, spec.height,
         spec.width);
  return [&spec, &images](std::size_t first, std::size_t count, float* target) {
    for (std::size_t i = 0; i < count; ++i)
      to_channels_last(image_shape(spec), images.image(first + i),
                       target + i * images.image_size());
  };
}

auto fill_from(const NetworkSpec& spec, MatrixView<const float> images) {
  const Shape shape = image_shape(spec);
  if (images.cols() != shape.size())
    fail(ErrorCode::bad_input, "images of {} values, the network wants {}", images.cols(),
         shape.size());
  return [shape, images](std::size_t first, std::size_t count, float* target) {
    for (std::size_t i = 0; i < count; ++i)
      to_channels_last(shape, images.row(first + i), target + i * shape.size());
  };
}

}  // namespace

Matrix<float> Network::logits(const ImageSet& images) const {
  return engine().run(images.size(), fill_from(spec_, images)).logits;
}

Matrix<float> Network::logits(MatrixView<const float> images) const {
  return outputs(images).logits;
}

Matrix<float> Network::features(const ImageSet& images) const {
  return engine().run(images.size(), fill_from(spec_, images)).features;
}

Matrix<float> Network::features(MatrixView<const float> images) const {
  return outputs(images).features;
}

Network::Outputs Network::outputs(MatrixView<const float> images) const {
  return engine().run(images.rows(), fill_from(spec_, images),
                      channels_first_is_last(spec_) ? images.data() : nullptr);
}

Matrix<float> Network::input_gradient(MatrixView<const float> images,
                                      MatrixView<const float> dlogits) const {
  if (dlogits.rows() != images.rows() || dlogits.cols() != classes())
    fail(ErrorCode::bad_input, "input_gradient: dlogits is {} x {}, wanted {} x {}", dlogits.rows(),
         dlogits.cols(), images.rows(), classes());
  return engine().input_gradient(images.rows(), fill_from(spec_, images), dlogits);
}

MatrixView<const float> Network::head_weights() const {
  const Parameter& weight = parameters_[parameters_.size() - 2];
  return {weight.values.data(), weight.shape[0], weight.shape[1]};
}

std::span<const float> Network::head_bias() const { return parameters_.back().values; }

void Network::set_head(const Matrix<float>& weights, std::span<const float> bias) {
  if (weights.cols() != feature_count() || weights.rows() != bias.size() || bias.empty())
    fail(ErrorCode::bad_input, "head of {} x {} with {} biases, the network has {} features",
         weights.rows(), weights.cols(), bias.size(), feature_count());
  spec_.classes = weights.rows();
  Parameter& weight = parameters_[parameters_.size() - 2];
  weight.shape[0] = weights.rows();
  weight.values.assign(weights.flat().begin(), weights.flat().end());
  parameters_.back().shape[0] = bias.size();
  parameters_.back().values.assign(bias.begin(), bias.end());
  engine_.reset();
}

}  // namespace oubli::nn
