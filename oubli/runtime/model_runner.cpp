#include "oubli/runtime/model_runner.h"

#include <algorithm>
#include <cmath>

#include "oubli/base/interrupt.h"
#include "oubli/base/progress.h"
#include "oubli/base/workers.h"

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

}  // namespace

ModelRunner::ModelRunner(const Engine& engine, const OnnxModel& model,
                         const PreparationOptions& options, const Sample& example)
    : input_(only_input(model.model())),
      preparation_(options, shape_of(model.model(), input_), example),
      fixed_batch_(fixed_batch_of(input_)),
      model_(engine.load(model)) {}

ModelOutputs ModelRunner::run(std::span<const Sample> samples, bool all_outputs) const {
  const std::size_t size = preparation_.bytes();
  const auto run_some = [&](std::span<const Sample> some, std::size_t rows) {
    std::vector<std::byte> bytes(rows * size);  // the last ones may be zeros
    for (std::size_t i = 0; i < some.size(); ++i)
      preparation_.write(some[i], std::span(bytes).subspan(i * size, size));
    std::vector<std::size_t> shape{rows};
    shape.insert(shape.end(), preparation_.shape().begin(), preparation_.shape().end());
    return model_->run({{input_.name, {preparation_.dtype(), shape, bytes, "input"}}}, some.size(),
                       all_outputs);
  };
  if (fixed_batch_ == 0) return run_some(samples, samples.size());
  ModelOutputs all;
  for (std::size_t begin = 0; begin < samples.size(); begin += fixed_batch_) {
    const std::size_t count = std::min(fixed_batch_, samples.size() - begin);
    ModelOutputs some = run_some(samples.subspan(begin, count), fixed_batch_);
    if (begin == 0) {
      all = {Matrix<float>(samples.size(), some.features.cols()),
             Matrix<float>(samples.size(), some.logits.cols())};
      // Of a fixed number of samples: the first ones, as they are.
      all.outputs = std::move(some.outputs);
    }
    std::ranges::copy(some.features.flat(), all.features.row(begin).begin());
    std::ranges::copy(some.logits.flat(), all.logits.row(begin).begin());
  }
  return all;
}

void ModelRunner::run_all(const SampleSource& source, std::span<const std::size_t> indices,
                          unsigned workers, const Wanted& wanted, const Consume& consume,
                          const std::string& label, const std::stop_token& stop) const {
  Progress progress(label, indices.size());
  const std::size_t at_once = std::size_t{workers} * 2;
  for (std::size_t round = 0; round < indices.size(); round += at_once * kBatch) {
    const std::size_t batches = std::min(at_once, (indices.size() - round + kBatch - 1) / kBatch);
    std::vector<ModelOutputs> results(batches);
    run_tasks(
        batches, workers,
        [&](std::size_t b, unsigned) {
          const std::size_t begin = round + b * kBatch;
          const std::size_t count = std::min(kBatch, indices.size() - begin);
          std::vector<Sample> samples;
          for (std::size_t i = 0; i < count; ++i)
            samples.push_back(source.read(indices[begin + i]));
          results[b] = run(samples, wanted(begin));
          progress.step(count);
        },
        stop);
    for (std::size_t b = 0; b < batches; ++b) consume(round + b * kBatch, std::move(results[b]));
  }
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

double head_mismatch(const HeadView& head, const ModelOutputs& batch) {
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
