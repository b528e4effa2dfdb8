#include "oubli/forget/run_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "oubli/base/digest.h"
#include "oubli/base/names.h"
#include "oubli/base/scratch_file.h"
#include "oubli/base/workers.h"
#include "oubli/nn/convolution.h"
#include "oubli/runtime/model_runner.h"

namespace oubli {

namespace fs = std::filesystem;

namespace {

const OnnxModel& as_onnx(const ModelFile& model) {
  const auto* onnx = dynamic_cast<const OnnxModel*>(&model);
  if (onnx == nullptr) {
    fail(ErrorCode::usage,
         "{}: holds weights only and cannot be run on --data; give --features and --labels",
         model.path().string());
  }
  return *onnx;
}

std::size_t largest(std::span<const float> row) {
  return static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
}
std::size_t largest(std::span<const double> row) {
  return static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
}

// One digest over all inputs in order, so that a receipt names the data in one line.
FileDigest digest_of_source(const SampleSource& source) {
  FileDigest digest{"data", fs::path(source.name()).filename().string(), "", 0};
  if (!source.mapped().empty()) {  // what was read, whatever is at its place by now
    digest = file_named("data", source.files().front());
    digest.sha256 = sha256_of_mapped(source.mapped().front()->bytes());
    return digest;
  }
  if (source.files().size() == 1) return digest_of("data", source.files().front());
  digest.files = std::max<std::size_t>(1, source.files().size());
  Sha256 sum;
  for (const fs::path& path : source.files()) {
    const MappedFile file(path);
    const std::string name =
        path.parent_path().filename().string() + "/" + path.filename().string();
    sum.update(as_bytes(fmt::format("{} {}\n{}", name.size(), file.bytes().size(), name)));
    sum.update(file.bytes());
    digest.bytes += file.bytes().size();
  }
  digest.sha256 = source.files().empty() ? "" : sum.hex();
  return digest;
}

bool shifts_all_alike(const HeadFilter& filter) {
  for (std::size_t term = 0; term < filter.d.rows(); ++term) {
    const auto row = filter.d.row(term);
    if (std::ranges::any_of(row, [&](double value) { return value != row.front(); })) return false;
  }
  return true;
}

void centre(std::span<double> row) {
  const double mean =
      std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size());
  for (double& value : row) value -= mean;
}

}  // namespace

ModelRun::ModelRun(const ModelFile& file, const RunOptions& options,
                   std::span<const std::string> class_names, const std::stop_token& stop)
    : options_(options) {
  source_ = SampleSource::open(options.data, options.leave_out);
  const OnnxModel& model = as_onnx(file);
  const HeadView& head = model.head();
  const std::vector<std::uint32_t> labels =
      match_labels(*source_, head.classes(), class_names, report_.labels);
  runtime_ = runtime_for(model, options.runtime);
  const ModelRunner runner(runtime_, model, options.preparation, source_->read(0));
  report_.data = fs::path(source_->name()).filename().string();
  report_.preparation = runner.preparation();
  report_.preparation_as_used = runner.preparation_as_used();
  report_.runtime = describe_runtime(runtime_);
  report_.instructions = instruction_set();
  report_.as_float = runner.as_float();
  report_.samples = source_->size();

  std::vector<std::size_t> indices(source_->size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  std::vector<std::size_t> right(head.classes());
  std::vector<std::size_t> count(head.classes());
  const auto features = std::make_shared<ScratchFile>("features of " + report_.data);
  runner.run_all(
      *source_, indices, available_cores(),
      [&](std::size_t first, const ModelRunner::Batch& batch) {
        report_.head_mismatch = std::max(report_.head_mismatch, head_mismatch(head, batch));
        if (!(report_.head_mismatch <= 1)) {
          fail(ErrorCode::unfilterable,
               "{}: the {} does not compute what its weights say: W f + b differs from the logits "
               "by {:.3g} times what "
               "rounding explains",
               model.path().string(), model.head_name(), report_.head_mismatch);
        }
        for (std::size_t i = 0; i < batch.logits.rows(); ++i) {
          const std::uint32_t label = labels[first + i];
          ++count[label];
          if (largest(batch.logits.row(i)) == label) ++right[label];
        }
        features->write(std::as_bytes(batch.features.flat()));
      },
      "running the model", stop);
  calibration_.space = Space::features;
  calibration_.values = {{DType::f32,
                          {labels.size(), head.features()},
                          features->map(),
                          "features of " + report_.data},
                         features};
  calibration_.labels = labels;
  calibration_.files = {digest_of_source(*source_)};
  calibration_.mapped.assign(source_->mapped().begin(), source_->mapped().end());
  for (std::size_t j = 0; j < count.size(); ++j) {
    report_.class_accuracy.push_back(count[j] == 0 ? std::numeric_limits<double>::quiet_NaN()
                                                   : static_cast<double>(right[j]) /
                                                         static_cast<double>(count[j]));
  }
  report_.accuracy =
      static_cast<double>(std::accumulate(right.begin(), right.end(), std::size_t{0})) /
      static_cast<double>(labels.size());
}

bool near_chance(double accuracy, std::size_t classes, std::size_t samples) {
  // Chance is right once in `classes` times; three standard deviations above that is still chance.
  const double chance = 1 / static_cast<double>(classes);
  const double deviation = std::sqrt(chance * (1 - chance) / static_cast<double>(samples));
  return accuracy < 0.5 && accuracy <= 1.5 * chance + 3 * deviation;
}

void ModelRun::check_alignment(std::span<const std::size_t> forget,
                               std::span<const std::string> class_names) const {
  const std::size_t classes = report_.class_accuracy.size();
  if (near_chance(report_.accuracy, classes, report_.samples)) {
    fail(ErrorCode::unfilterable,
         "labels look misaligned: the model is right on {:.1f} % of {} samples, near chance "
         "({:.1f} %); {}; {}; check the "
         "order of the classes (--class-names) and how inputs are made (--scale, --mean, --std, "
         "--layout), or say "
         "--ignore-accuracy",
         100 * report_.accuracy, report_.samples, 100 / static_cast<double>(classes),
         report_.labels, report_.preparation);
  }
  for (const std::size_t c : forget) {
    const double accuracy = report_.class_accuracy[c];
    if (std::isnan(accuracy)) {
      fail(ErrorCode::bad_input, "{}: no sample of class {}, which is to be forgotten",
           report_.data, class_label(c, class_names));
    }
    if (accuracy < 0.5) {
      fail(ErrorCode::unfilterable,
           "labels look misaligned: the model calls only {:.1f} % of the samples of class {} by "
           "that name (all classes: "
           "{:.1f} %); is it the right class? ({}); check --class-names and how inputs are made "
           "(--scale, --mean, --std, --layout), or say --ignore-accuracy",
           100 * accuracy, class_label(c, class_names), 100 * report_.accuracy,
           report_.preparation);
    }
  }
}

RunCheck ModelRun::check(const StagedModel& staged, const HeadView& old_head,
                         const HeadFilter& filter, const std::stop_token& stop) const {
  const OnnxModel& written = as_onnx(*staged.written);
  const ModelRunner runner(runtime_, written, options_.preparation, source_->read(0));
  RunCheck result;
  result.as_float = runner.as_float();
  result.compared_with_naive = shifts_all_alike(filter);
  const std::size_t step = std::max<std::size_t>(
      1, (source_->size() + options_.check_samples - 1) / options_.check_samples);
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < source_->size(); i += step) indices.push_back(i);
  result.samples = indices.size();
  const double stored = unit_roundoff(old_head.weights.dtype);
  const double computed = std::max(stored, unit_roundoff(DType::f32));
  const double factor =
      stored + computed * (std::sqrt(static_cast<double>(old_head.features())) + 8);
  std::size_t kept = 0;
  std::size_t right_before = 0;
  std::size_t right_after = 0;
  runner.run_all(
      *source_, indices, available_cores(),
      [&](std::size_t first, const ModelRunner::Batch& batch) {
        result.head_mismatch = std::max(result.head_mismatch, head_mismatch(written.head(), batch));
        Matrix<double> features(batch.features.rows(), batch.features.cols());
        std::ranges::copy(batch.features.flat(), features.flat().begin());
        const Matrix<double> old_logits = logits_of(old_head, features);
        const Matrix<double> bounds = magnitudes_of(written.head(), features);
        for (std::size_t i = 0; i < features.rows(); ++i) {
          const std::uint32_t label = calibration_.labels[indices[first + i]];
          const std::size_t chosen = largest(batch.logits.row(i));
          if (const auto new_label = filter.split.new_index(label)) {
            ++kept;
            if (largest(old_logits.row(i)) == label) ++right_before;
            if (chosen == *new_label) ++right_after;
          }
          if (!result.compared_with_naive) continue;
          std::vector<double> naive;
          for (const std::size_t j : filter.split.retained) naive.push_back(old_logits(i, j));
          std::vector<double> found(batch.logits.row(i).begin(), batch.logits.row(i).end());
          if (largest(naive) != chosen) ++result.label_flips;
          centre(naive);
          centre(found);
          const double bound = 2 * factor * std::ranges::max(bounds.row(i)) + 1e-30;
          for (std::size_t j = 0; j < naive.size(); ++j) {
            const double difference = std::abs(naive[j] - found[j]);
            result.largest_difference = std::max(result.largest_difference, difference);
            result.largest_ratio = std::max(result.largest_ratio, difference / bound);
          }
        }
      },
      "running the new model", stop);
  if (kept != 0) {
    result.kept_accuracy_before = static_cast<double>(right_before) / static_cast<double>(kept);
    result.kept_accuracy_after = static_cast<double>(right_after) / static_cast<double>(kept);
  }
  if (!(result.head_mismatch <= 1)) {
    fail(ErrorCode::self_check,
         "the new model does not compute what its new layer says (W f + b differs by {:.3g} times "
         "its "
         "bound); nothing was written",
         result.head_mismatch);
  }
  if (!(result.largest_ratio <= 1)) {
    fail(ErrorCode::self_check,
         "the new model's softmax is not that of the old one without the forgotten classes: "
         "centred logits differ by {:.3g}, "
         "{:.3g} times what rounding explains; nothing was written",
         result.largest_difference, result.largest_ratio);
  }
  return result;
}

}  // namespace oubli
