#include "oubli/runtime/model_runner.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <numeric>

#include "oubli/base/interrupt.h"
#include "oubli/base/progress.h"
#include "oubli/base/workers.h"
#include "oubli/model/onnx/probe.h"
#include "oubli/nn/network_file.h"

namespace oubli {

namespace {

constexpr std::size_t kBatch = 32;

// The model's only input that is no initializer.
const onnx::ValueInfo& only_input(const onnx::Model& model) {
  const onnx::ValueInfo* found = nullptr;
  for (const onnx::ValueInfo& input : model.graph().inputs) {
    if (model.graph().initializer(input.name) != nullptr) continue;
    if (found != nullptr) {
      fail(ErrorCode::unfilterable,
           "{}: takes several inputs ('{}', '{}', ...), which cannot be fed here; give the "
           "features with --features",
           model.what(), found->name, input.name);
    }
    found = &input;
  }
  if (found == nullptr) fail(ErrorCode::unfilterable, "{}: takes no input", model.what());
  return *found;
}

InputShape shape_of(const onnx::Model& model, const onnx::ValueInfo& input) {
  InputShape result;
  std::optional<DType> dtype = onnx::dtype_of(input.element_type);
  if (!dtype)
    fail(ErrorCode::unfilterable, "{}: input '{}' is not made of numbers", model.what(),
         input.name);
  result.dtype = *dtype == DType::bf16 ? DType::f32 : *dtype;
  if (!input.shape || input.shape->size() < 2) {
    fail(ErrorCode::unfilterable,
         "{}: input '{}' has no known shape with a batch axis; give the features with --features",
         model.what(), input.name);
  }
  for (auto dim = input.shape->begin() + 1; dim != input.shape->end(); ++dim) {
    result.extents.push_back(dim->value && *dim->value > 0
                                 ? std::optional(static_cast<std::size_t>(*dim->value))
                                 : std::nullopt);
  }
  return result;
}

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

// A network computes for one thread at a time: every caller borrows a copy.
class NetworkCopies {
 public:
  explicit NetworkCopies(Network network) : original_(std::move(network)) {}

  ModelRunner::Batch run(MatrixView<const float> images) {
    std::unique_ptr<Network> copy = borrow();
    ModelRunner::Batch batch{copy->features(images), copy->logits(images)};
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(copy));
    return batch;
  }

 private:
  std::unique_ptr<Network> borrow() {
    const std::scoped_lock lock(mutex_);
    if (idle_.empty()) return std::make_unique<Network>(original_);
    std::unique_ptr<Network> copy = std::move(idle_.back());
    idle_.pop_back();
    return copy;
  }

  std::mutex mutex_;
  const Network original_;
  std::vector<std::unique_ptr<Network>> idle_;
};

}  // namespace

struct ModelRunner::State {
  State(std::shared_ptr<const OnnxRuntime> runtime, const OnnxModel& model,
        const PreparationOptions& options, const Sample& example)
      : input(only_input(model.model())),
        preparation(options, shape_of(model.model(), input), example),
        probe(make_probe(model)),
        what(model.model().what()),
        features(model.head().features()),
        classes(model.head().classes()),
        kind(model.onnx_head().kind),
        columns(model.onnx_head().columns),
        logits_axis(model.onnx_head().logits_axis) {
    if (runtime) {
      session.emplace(std::move(runtime), probe.bytes, model.model().folder(), what);
    } else {
      std::optional<NamedNetwork> own = network_in(model.model());
      if (!own) fail(ErrorCode::missing, "{}: needs ONNX Runtime; run 'oubli get-runtime'", what);
      network = std::make_unique<NetworkCopies>(std::move(own->network));
    }
    const std::optional<std::int64_t>& batch = input.shape->front().value;
    if (batch && *batch > 0) fixed_batch = static_cast<std::size_t>(*batch);
    probe.bytes.clear();
    probe.bytes.shrink_to_fit();
  }

  onnx::ValueInfo input;
  Preparation preparation;
  OnnxProbe probe;
  std::string what;
  std::size_t features, classes;
  OnnxHead::Kind kind;
  bool columns;
  std::size_t logits_axis;
  std::size_t fixed_batch = 0;             // 0: any
  std::optional<OnnxSession> session;      // one of
  std::unique_ptr<NetworkCopies> network;  // these two
};

ModelRunner::ModelRunner(std::shared_ptr<const OnnxRuntime> runtime, const OnnxModel& model,
                         const PreparationOptions& options, const Sample& example)
    : state_(std::make_unique<State>(std::move(runtime), model, options, example)) {}

ModelRunner::~ModelRunner() = default;

std::string ModelRunner::preparation() const { return state_->preparation.describe(); }
PreparationOptions ModelRunner::preparation_as_used() const {
  return state_->preparation.as_used();
}
bool ModelRunner::as_float() const { return state_->probe.as_float; }

ModelRunner::Batch ModelRunner::run(std::span<const Sample> samples) const {
  const State& s = *state_;
  Batch result{Matrix<float>(samples.size(), s.features), Matrix<float>(samples.size(), s.classes)};
  const std::size_t step = s.fixed_batch == 0 ? samples.size() : s.fixed_batch;
  const std::size_t size = s.preparation.bytes();
  for (std::size_t begin = 0; begin < samples.size(); begin += step) {
    const std::size_t count = std::min(step, samples.size() - begin);
    const std::size_t rows =
        s.fixed_batch == 0 ? count : step;  // the last one is filled up with zeros
    std::vector<std::byte> bytes(rows * size);
    for (std::size_t i = 0; i < count; ++i) {
      s.preparation.write(samples[begin + i], std::span(bytes).subspan(i * size, size));
    }
    if (s.network) {  // what `oubli train` writes takes float32 images of any number
      std::vector<float> values(bytes.size() / sizeof(float));
      decode(s.preparation.dtype(), bytes, std::span<float>(values));
      return s.network->run(MatrixView<const float>(values.data(), rows, values.size() / rows));
    }
    std::vector<std::size_t> shape{rows};
    shape.insert(shape.end(), s.preparation.shape().begin(), s.preparation.shape().end());
    const OnnxSession::Input input{s.input.name, {s.preparation.dtype(), shape, bytes, "input"}};
    const std::vector<std::string> names{s.probe.features, s.probe.logits};
    const std::vector<Tensor> values = s.session->run(std::span(&input, 1), names);
    const std::size_t feature_axis = s.kind == OnnxHead::Kind::conv ? 1
                                     : s.columns && values[0].shape.size() >= 2
                                         ? values[0].shape.size() - 2
                                         : values[0].shape.size() - 1;
    const bool logit_columns = s.columns && s.kind == OnnxHead::Kind::matmul;
    const Matrix<float> features =
        rows_of(values[0], feature_axis, s.columns, count, rows, s.features,
                fmt::format("{}: '{}'", s.what, s.probe.features));
    const Matrix<float> logits =
        rows_of(values[1], s.logits_axis, logit_columns, count, rows, s.classes,
                fmt::format("{}: '{}'", s.what, s.probe.logits));
    for (std::size_t i = 0; i < count; ++i) {
      std::ranges::copy(features.row(i), result.features.row(begin + i).begin());
      std::ranges::copy(logits.row(i), result.logits.row(begin + i).begin());
    }
  }
  return result;
}

void ModelRunner::run_all(const SampleSource& source, std::span<const std::size_t> indices,
                          unsigned workers,
                          const std::function<void(std::size_t, const Batch&)>& consume,
                          const std::string& label, const std::stop_token& stop) const {
  Progress progress(label, indices.size());
  const std::size_t at_once = std::size_t{workers} * 2;
  for (std::size_t round = 0; round < indices.size(); round += at_once * kBatch) {
    const std::size_t batches = std::min(at_once, (indices.size() - round + kBatch - 1) / kBatch);
    std::vector<Batch> results(batches);
    run_tasks(
        batches, workers,
        [&](std::size_t b, unsigned) {
          const std::size_t begin = round + b * kBatch;
          const std::size_t count = std::min(kBatch, indices.size() - begin);
          std::vector<Sample> samples;
          for (std::size_t i = 0; i < count; ++i)
            samples.push_back(source.read(indices[begin + i]));
          results[b] = run(samples);
          progress.step(count);
        },
        stop);
    for (std::size_t b = 0; b < batches; ++b) consume(round + b * kBatch, results[b]);
  }
}

std::shared_ptr<const OnnxRuntime> runtime_for(const OnnxModel& model,
                                               const std::optional<std::filesystem::path>& path) {
  try {
    return OnnxRuntime::open(path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::missing || path || !network_in(model.model())) throw;
    say_detail(fmt::format("{}; running the network on oubli/nn", error.what()));
    return nullptr;
  }
}

std::string describe_runtime(const std::shared_ptr<const OnnxRuntime>& runtime) {
  return runtime ? fmt::format("ONNX Runtime {}", runtime->version()) : "built in (oubli/nn)";
}

namespace {

// Half the distance from 0 to the next number, in what the layer computes with.
double smallest_rounding(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-25;
    case DType::bf16:
      return 0x1p-134;
    default:  // logits are compared as float32
      return 0x1p-150;
  }
}

}  // namespace

double head_mismatch(const HeadView& head, const ModelRunner::Batch& batch) {
  const std::size_t samples = batch.features.rows();
  Matrix<double> features(samples, batch.features.cols());
  std::ranges::copy(batch.features.flat(), features.flat().begin());
  const Matrix<double> computed = logits_of(head, features);
  const Matrix<double> bounds = magnitudes_of(head, features);
  const double eps = std::max(unit_roundoff(head.weights.dtype), unit_roundoff(DType::f32));
  const double factor = eps * (std::sqrt(static_cast<double>(features.cols())) + 8);
  const double smallest = smallest_rounding(head.weights.dtype);
  double worst = 0;
  for (std::size_t i = 0; i < samples; ++i) {
    double length = 1;  // |f|_1 + 1: roundings near 0 are absolute
    for (const double feature : features.row(i)) length += std::abs(feature);
    for (std::size_t j = 0; j < computed.cols(); ++j) {
      const double found = static_cast<double>(batch.logits(i, j));
      const double difference = std::abs(computed(i, j) - found);
      const double bound = factor * bounds(i, j) + smallest * length + 1e-30;
      const double ratio = difference / bound;
      worst = std::isfinite(ratio) ? std::max(worst, ratio) : HUGE_VAL;
    }
  }
  return worst;
}

}  // namespace oubli
