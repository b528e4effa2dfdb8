#include "oubli/forget/run_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "oubli/array/labels.h"
#include "oubli/base/digest.h"
#include "oubli/base/largest.h"
#include "oubli/base/names.h"
#include "oubli/base/scratch_file.h"
#include "oubli/base/workers.h"
#include "oubli/forget/checked_batches.h"
#include "oubli/forget/preparation_trial.h"
#include "oubli/forget/run_comparison.h"
#include "oubli/forget/sample_confusion.h"
#include "oubli/forget/stated_preparation.h"
#include "oubli/nn/convolution.h"
#include "oubli/runtime/model_runner.h"

namespace oubli {

namespace fs = std::filesystem;

namespace {

const OnnxModel& as_onnx(const ModelFile& model) {
  const auto* onnx = dynamic_cast<const OnnxModel*>(&model);
  if (onnx == nullptr) {
    fail(
        ErrorCode::usage,
        "{}: cannot be run on --data here; give --features and --labels, or --run-with MODEL.onnx, "
        "the same model as an ONNX file",
        model.path().string());
  }
  return *onnx;
}

// Features are the head's only if the two files have the same head, but for rounding when one was
// made from the other.
void require_same_head(const ModelFile& model, const ModelFile& stand_in) {
  const HeadView& a = model.head();
  const HeadView& b = stand_in.head();
  const auto refuse = [&](const std::string& why) {
    fail(ErrorCode::bad_input, "--run-with {}: not the same model as {}: {}",
         stand_in.path().string(), model.path().string(), why);
  };
  if (a.classes() != b.classes() || a.features() != b.features())
    refuse(fmt::format("{} classes x {} features, wanted {} x {}", b.classes(), b.features(),
                       a.classes(), a.features()));
  const double rounding =
      4 * std::max(unit_roundoff(a.weights.dtype), unit_roundoff(b.weights.dtype));
  const Matrix<double> old_weights = to_matrix(a.weights);
  const Matrix<double> new_weights = to_matrix(b.weights);
  const std::vector<double> old_bias = bias_of(a);
  const std::vector<double> new_bias = bias_of(b);
  for (std::size_t j = 0; j < a.classes(); ++j) {
    double difference = std::abs(old_bias[j] - new_bias[j]);
    double size = std::max(std::abs(old_bias[j]), std::abs(new_bias[j]));
    for (std::size_t i = 0; i < a.features(); ++i) {
      const double x = a.weight_scale * (a.transposed ? old_weights(i, j) : old_weights(j, i));
      const double y = b.weight_scale * (b.transposed ? new_weights(i, j) : new_weights(j, i));
      difference = std::max(difference, std::abs(x - y));
      size = std::max({size, std::abs(x), std::abs(y)});
    }
    if (!(difference <= rounding * size))
      refuse(
          fmt::format("the weights of class {} differ by {:.3g}, {:.3g} times what rounding "
                      "explains",
                      j, difference, difference / (rounding * size)));
  }
}

// The file to run in the model's place, if there is one.
std::unique_ptr<ModelFile> stand_in_for(const ModelFile& model, const RunOptions& options) {
  if (!options.run_with) return nullptr;
  auto stand_in = ModelFile::open(*options.run_with);
  require_same_head(model, *stand_in);
  return stand_in;
}

// Of a data set known by name, which lies in no file of the user's: what is read of it, in order.
FileDigest digest_of_samples(const SampleSource& source) {
  FileDigest digest{"data", source.name(), "", 0};
  Sha256 sum;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const Sample sample = source.read(i);
    sum.update(as_bytes(fmt::format("{} {} {} {}\n", source.labels()[i], sample.height,
                                    sample.width, sample.channels)));
    sum.update(std::as_bytes(std::span(sample.pixels)));
    digest.bytes += sample.pixels.size();
  }
  digest.sha256 = sum.hex();
  return digest;
}

// One digest over all inputs in order, so that a receipt names the data in one line.
FileDigest digest_of_source(const SampleSource& source) {
  if (source.files().empty()) return digest_of_samples(source);
  FileDigest digest{"data", fs::path(source.name()).filename().string(), "", 0};
  if (!source.mapped().empty()) {  // what was read, whatever is at its place by now
    digest = file_named("data", source.files().front());
    digest.sha256 = sha256_of_mapped(source.mapped().front()->bytes());
    return digest;
  }
  if (source.files().size() == 1) return digest_of("data", source.files().front());
  digest.files = source.files().size();
  Sha256 sum;
  for (const fs::path& path : source.files()) {
    const MappedFile file(path);
    const std::string name =
        path.parent_path().filename().string() + "/" + path.filename().string();
    sum.update(as_bytes(fmt::format("{} {}\n{}", name.size(), file.bytes().size(), name)));
    sum.update(file.bytes());
    digest.bytes += file.bytes().size();
  }
  digest.sha256 = sum.hex();
  return digest;
}

// Below this share of right answers it is asked whether inputs are made in the right way.
constexpr double kLowAccuracy = 0.8;

// The extents of the positions of a sample, which must be those of its labels.
std::vector<std::size_t> matched_positions(const ModelRunner& runner, const SampleSource& source,
                                           const Sample& example, const OnnxModel& model) {
  if (!model.onnx_head().logit_rows.samples && runner.batch() != 1)
    fail(ErrorCode::unfilterable,
         "{}: {}: which of its answers are whose is not known; store the shapes in the file with "
         "ONNX shape inference, or give --features and --labels",
         model.path().string(), model.head_name());
  std::vector<std::size_t> positions = runner.run(std::span(&example, 1)).positions;
  if (std::ranges::equal(positions, source.positions())) return positions;
  const auto in_words = [](std::span<const std::size_t> extents) {
    return extents.empty() ? "one" : fmt::format("{}", fmt::join(extents, " x "));
  };
  fail(
      ErrorCode::bad_input,
      "{}: {} label(s) for each sample, and the {} answers {} time(s): wanted one label for each "
      "answer, y in the order of the samples and, for each, in that of the positions of the logits",
      source.name(), in_words(source.positions()), model.head_name(), in_words(positions));
}

}  // namespace

struct CalibrationRun::State {
  explicit State(const OnnxModel& its) : model(its) {}
  const OnnxModel& model;
  std::shared_ptr<const Engine> engine;
  std::size_t batch = 0;
  std::vector<std::uint32_t> labels;            // of all answers; kNoLabel where there is none
  std::map<std::size_t, ModelOutputs> checked;  // by the number of the first sample
};

CalibrationRun::~CalibrationRun() = default;

CalibrationRun::CalibrationRun(const ModelFile& file, const RunOptions& options,
                               std::span<const std::string> class_names,
                               const std::stop_token& stop)
    : options_(options),
      stand_in_(stand_in_for(file, options)),
      source_(SampleSource::open(options.data, options.leave_out)),
      state_(std::make_unique<State>(as_onnx(stand_in_ ? *stand_in_ : file))) {
  const OnnxModel& model = state_->model;
  const HeadView& head = model.head();
  state_->labels = match_labels(*source_, head.classes(), class_names, report_.labels);
  state_->engine = engine_for(model, options.runtime);
  const Sample example = source_->read(0);
  if (example.image)
    options_.preparation = with_published(options.preparation, file, model, report_.published);
  const ModelRunner runner(*state_->engine, model, options_.preparation, example,
                           number_outputs(model.model().graph()));
  describe(runner, example);
  run_source(runner, stop);
  report_.class_accuracy = confusion_.class_accuracy();
  report_.accuracy = confusion_.accuracy();
}

// What is known before the model runs on more than one sample.
void CalibrationRun::describe(const ModelRunner& runner, const Sample& example) {
  const OnnxModel& model = state_->model;
  report_.data = fs::path(source_->name()).filename().string();
  report_.preparation = runner.preparation();
  report_.preparation_as_used = runner.preparation_as_used();
  report_.runtime = state_->engine->describe();
  report_.instructions = nn::instruction_set();
  report_.as_float = runner.as_float();
  report_.samples = source_->size();
  if (model.onnx_head().per_position || !source_->positions().empty())
    report_.positions = matched_positions(runner, *source_, example, model);
  report_.left_out = count_unlabelled(state_->labels);
  if (report_.left_out == state_->labels.size())
    fail(ErrorCode::bad_input, "{}: no label: all of {} are -1 or -100", report_.data,
         report_.left_out);
}

void CalibrationRun::run_source(const ModelRunner& runner, const std::stop_token& stop) {
  const HeadView& head = state_->model.head();
  const std::vector<std::uint32_t>& labels = state_->labels;
  std::vector<std::size_t> indices(source_->size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  confusion_ = Confusion(head.classes());
  const auto features = std::make_shared<ScratchFile>("features of " + report_.data);
  state_->batch = runner.batch();
  const std::set<std::size_t> checked = checked_batches(
      labels, {.samples = source_->size(),
               .batch = state_->batch,
               .classes = head.classes(),
               .kept_bytes = labels.size() / source_->size() *
                             (head.features() + 2 * head.classes()) * sizeof(float)});
  const auto is_checked = [&](std::size_t first) { return checked.contains(first); };
  report_.changes = runner.run_all(
      *source_, indices, state_->batch, available_cores(), is_checked,
      [&](std::size_t first, ModelOutputs batch) {
        take(first, batch, *features);
        if (is_checked(first)) state_->checked.emplace(first, std::move(batch));
      },
      "running the model", stop);
  calibration_.space = Space::features;
  calibration_.labels = labels;
  std::erase(calibration_.labels, kNoLabel);
  calibration_.left_out = report_.left_out;
  calibration_.values = {{DType::f32,
                          {calibration_.labels.size(), head.features()},
                          features->map(),
                          "features of " + report_.data},
                         features};
  calibration_.files = {digest_of_source(*source_)};
  calibration_.mapped.assign(source_->mapped().begin(), source_->mapped().end());
  if (stand_in_)
    for (const fs::path& path : stand_in_->files())
      calibration_.files.push_back(file_named("run with", path));
}

// Counts what the model made of a batch, and writes the features that have a label.
void CalibrationRun::take(std::size_t first, const ModelOutputs& batch, ScratchFile& features) {
  const OnnxModel& model = state_->model;
  report_.head_mismatch = std::max(report_.head_mismatch,
                                   head_mismatch(model.head(), batch, model.onnx_head().rounding));
  if (!(report_.head_mismatch <= 1))
    fail(ErrorCode::unfilterable,
         "{}: the {} does not compute what its weights say: W f + b differs from the logits by "
         "{:.3g} times what rounding explains",
         model.path().string(), model.head_name(), report_.head_mismatch);
  if (batch.positions != report_.positions)
    fail(ErrorCode::unfilterable, "{}: samples from number {} on have other positions",
         model.path().string(), first);
  const std::size_t each = state_->labels.size() / source_->size();
  for (std::size_t i = 0; i < batch.logits.rows(); ++i) {
    const std::uint32_t label = state_->labels[first * each + i];
    if (label == kNoLabel) continue;
    confusion_.add(label, static_cast<std::uint32_t>(place_of_largest(batch.logits.row(i))));
    if (report_.left_out != 0) features.write(std::as_bytes(batch.features.row(i)));
  }
  if (report_.left_out == 0) features.write(std::as_bytes(batch.features.flat()));
}

void CalibrationRun::check_alignment(std::span<const std::size_t> forget,
                                     std::span<const std::string> class_names) const {
  for (const std::size_t c : forget)
    if (std::isnan(report_.class_accuracy[c]))
      fail(ErrorCode::bad_input, "{}: no sample of class {}, which is to be forgotten",
           report_.data, class_label(c, class_names));
  // Where positions are labelled, they would have to be turned with the images.
  if (report_.accuracy < kLowAccuracy && report_.positions.empty()) {
    const auto better = better_preparation(*state_->engine, state_->model, *source_, state_->labels,
                                           report_.preparation_as_used);
    if (better)
      fail(ErrorCode::unfilterable,
           "inputs look wrongly made: the model is right on {:.1f} % of {} samples as they are "
           "made now ({}), and on {:.1f} % {}; {}, or say --ignore-accuracy",
           100 * better->accuracy_now, better->samples, report_.preparation, 100 * better->accuracy,
           better->by_options ? "with " + better->how : "if the images are taken " + better->how,
           better->by_options ? "give these options" : "change the images");
  }
  require_aligned(confusion_, leanings_of(state_->model.head(), calibration_, forget), class_names,
                  fmt::format("{}; {}", report_.labels, report_.preparation));
}

void CalibrationRun::run_all(
    const ModelFile& model,
    const std::function<void(std::size_t first, const ModelOutputs& batch)>& consume,
    const std::stop_token& stop) const {
  const ModelRunner runner(*state_->engine, as_onnx(model), options_.preparation, source_->read(0));
  std::vector<std::size_t> indices(source_->size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  runner.run_all(
      *source_, indices, state_->batch, available_cores(), [](std::size_t) { return false; },
      [&](std::size_t first, const ModelOutputs& batch) { consume(first, batch); },
      "running the new model", stop);
}

RunCheck CalibrationRun::check(const StagedModel& staged, const HeadFilter& filter,
                               const HeadRounding& rounding, const std::stop_token& stop) const {
  const OnnxModel& written = as_onnx(*staged.written);
  const ModelRunner runner(*state_->engine, written, options_.preparation, source_->read(0),
                           number_outputs(written.model().graph()));
  RunComparison comparison(state_->model, written, filter, rounding);
  std::vector<std::size_t> indices;
  std::vector<std::string> stretches;
  for (const auto& [first, before] : state_->checked) {
    const std::size_t count = before.logits.rows() / before.answers_per_sample();
    for (std::size_t i = 0; i < count; ++i) indices.push_back(first + i);
    stretches.push_back(fmt::format("{} to {}", first, first + count - 1));
  }
  // The same batches: engines may round the numbers of another one differently.
  auto next = state_->checked.begin();
  runner.run_all(
      *source_, indices, state_->batch, available_cores(), [](std::size_t) { return true; },
      [&](std::size_t, const ModelOutputs& after) {
        const std::span<const std::uint32_t> labels(state_->labels);
        comparison.add(
            next->second, after,
            labels.subspan(next->first * after.answers_per_sample(), next->second.logits.rows()));
        ++next;
      },
      "running the new model", stop);
  RunCheck result = comparison.finish();
  result.as_float = runner.as_float();
  result.inputs = result.samples == source_->size()
                      ? fmt::format("all {} samples", source_->size())
                      : fmt::format("{} of {} samples: {}", result.samples, source_->size(),
                                    fmt::join(stretches, ", "));
  return result;
}

}  // namespace oubli
