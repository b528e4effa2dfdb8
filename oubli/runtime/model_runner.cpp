#include "oubli/runtime/model_runner.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "oubli/base/interrupt.h"
#include "oubli/base/progress.h"
#include "oubli/base/workers.h"
#include "oubli/onnx/shapes.h"

namespace oubli {

namespace {

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

std::size_t fixed_batch_of(const onnx::ValueInfo& input) {
  const std::optional<std::int64_t>& batch = input.shape->front().value;
  return batch && *batch > 0 ? static_cast<std::size_t>(*batch) : 0;
}

// What a batch may take: what the largest operation reads and makes. Runtimes keep two or three
// times as much.
constexpr double kBatchBytes = 32e6;

// Bytes per sample of the largest operation's input and output, as far as shapes are known.
double bytes_per_sample(const onnx::Model& model) {
  const onnx::Shapes shapes(model);
  const auto size_of_value = [&](const std::string& name) {
    const onnx::Shapes::Shape* const shape = shapes.shape(name);
    double size = sizeof(float);
    bool batch = false;
    for (const auto& extent : shape != nullptr ? *shape : onnx::Shapes::Shape()) {
      batch = batch || extent.batch;
      if (!extent.batch) size *= static_cast<double>(extent.value.value_or(1));
    }
    return batch ? size : 0;  // what there is once for all samples does not count
  };
  double most = 0;
  for (const onnx::Node& node : model.graph().nodes) {
    double size = 0;
    for (const auto& name : node.inputs) size += size_of_value(name);
    for (const auto& name : node.outputs) size += size_of_value(name);
    most = std::max(most, size);
  }
  return most;
}

// Batches that become ready in any order, consumed in theirs.
class InOrder {
 public:
  InOrder(std::size_t ahead, std::function<void(std::size_t, ModelOutputs)> consume)
      : ahead_(ahead), consume_(std::move(consume)) {}

  // Waits until batch `number` is less than `ahead` before what is consumed next. False: some other
  // batch failed, there is nothing to wait for.
  [[nodiscard]] bool await(std::size_t number) {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [&] { return failed_ || number < next_ + ahead_; });
    return !failed_;
  }
  void put(std::size_t number, ModelOutputs outputs) {
    const std::scoped_lock lock(mutex_);
    ready_.emplace(number, std::move(outputs));
    for (auto first = ready_.begin(); first != ready_.end() && first->first == next_;
         first = ready_.erase(first)) {
      consume_(next_, std::move(first->second));
      ++next_;
    }
    moved_.notify_all();
  }
  void fail_all() {
    const std::scoped_lock lock(mutex_);
    failed_ = true;
    moved_.notify_all();
  }

 private:
  const std::size_t ahead_;
  const std::function<void(std::size_t, ModelOutputs)> consume_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable moved_;
  std::map<std::size_t, ModelOutputs> ready_;
  std::size_t next_ = 0;
  bool failed_ = false;
};

}  // namespace

InputShape input_shape(const onnx::Model& model) { return shape_of(model, only_input(model)); }

ModelRunner::ModelRunner(const Engine& engine, const OnnxModel& model,
                         const PreparationOptions& options, const Sample& example,
                         std::span<const std::string> values)
    : input_(only_input(model.model())),
      preparation_(options, shape_of(model.model(), input_), example),
      fixed_batch_(fixed_batch_of(input_)),
      batch_(std::max(fixed_batch_, kLargestBatch)),
      model_(engine.load(model, values)) {
  if (fixed_batch_ != 0) return;
  const double each =
      std::max(bytes_per_sample(model.model()), static_cast<double>(preparation_.bytes()));
  batch_ = static_cast<std::size_t>(
      std::clamp(kBatchBytes / each, 1.0, static_cast<double>(kLargestBatch)));
}

ModelOutputs ModelRunner::run_written(std::size_t count, const Write& write, bool values) const {
  const std::size_t size = preparation_.bytes();
  const auto run_some = [&](std::size_t begin, std::size_t some, std::size_t rows) {
    std::vector<std::byte> bytes(rows * size);  // the last ones may be zeros
    for (std::size_t i = 0; i < some; ++i)
      write(begin + i, std::span(bytes).subspan(i * size, size));
    std::vector<std::size_t> shape{rows};
    shape.insert(shape.end(), preparation_.shape().begin(), preparation_.shape().end());
    return model_->run({{input_.name, {preparation_.dtype(), shape, bytes, "input"}}}, some,
                       values);
  };
  if (fixed_batch_ == 0) return run_some(0, count, count);
  ModelOutputs all;
  for (std::size_t begin = 0; begin < count; begin += fixed_batch_) {
    ModelOutputs some = run_some(begin, std::min(fixed_batch_, count - begin), fixed_batch_);
    const std::size_t each = some.answers_per_sample();
    if (begin == 0) {
      all = {Matrix<float>(count * each, some.features.cols()),
             Matrix<float>(count * each, some.logits.cols())};
      // Of a fixed number of samples: the first ones, as they are.
      all.values = std::move(some.values);
      all.positions = some.positions;
    }
    if (some.positions != all.positions)
      fail(ErrorCode::unfilterable, "the model has other positions in another batch");
    std::ranges::copy(some.features.flat(), all.features.row(begin * each).begin());
    std::ranges::copy(some.logits.flat(), all.logits.row(begin * each).begin());
  }
  return all;
}

ModelOutputs ModelRunner::run(std::span<const Sample> samples, bool values) const {
  return run_written(
      samples.size(),
      [&](std::size_t i, std::span<std::byte> out) { preparation_.write(samples[i], out); },
      values);
}

ImageChanges ModelRunner::run_all(const SampleSource& source, std::span<const std::size_t> indices,
                                  std::size_t batch, unsigned workers, const Wanted& wanted,
                                  const Consume& consume, const std::string& label,
                                  const std::stop_token& stop) const {
  Progress progress(label, indices.size());
  std::vector<ImageChanges> changes((indices.size() + batch - 1) / batch);
  InOrder in_order(std::size_t{workers} * 2, [&](std::size_t number, ModelOutputs made) {
    consume(number * batch, std::move(made));
  });
  run_tasks(
      changes.size(), workers,
      [&](std::size_t number, unsigned) {
        if (!in_order.await(number)) return;
        const std::size_t begin = number * batch;
        const std::size_t count = std::min(batch, indices.size() - begin);
        try {
          // Decoded one by one: images may be much larger than what the model takes.
          const auto write = [&](std::size_t i, std::span<std::byte> out) {
            changes[number] += preparation_.write(source.read(indices[begin + i]), out);
          };
          ModelOutputs made = run_written(count, write, wanted(begin));
          progress.step(count);
          in_order.put(number, std::move(made));
        } catch (...) {
          in_order.fail_all();
          throw;
        }
      },
      stop);
  ImageChanges all;
  for (const ImageChanges& some : changes) all += some;
  return all;
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

double head_mismatch(const HeadView& head, const ModelOutputs& batch,
                     const OnnxRoundings& rounding) {
  const auto& [product, result] = rounding;
  const std::vector<double> bias = bias_of(head);
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
      const double summed =
          std::clamp(computed(i, j) - bias[j], product.low, product.high) + bias[j];
      const double difference = std::abs(std::clamp(summed, result.low, result.high) - found);
      const double bound =
          factor * bounds(i, j) + smallest * length + 1e-30 + 0.5 * (product.step + result.step);
      const double ratio = difference / bound;
      worst = std::isfinite(ratio) ? std::max(worst, ratio) : HUGE_VAL;
    }
  }
  return worst;
}

}  // namespace oubli
