#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "oubli/array/row_blocks.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/largest.h"
#include "oubli/base/names.h"
#include "oubli/base/temporary_folder.h"
#include "oubli/forget/curvature.h"
#include "oubli/forget/delivery.h"
#include "oubli/model/onnx/model.h"
#include "oubli/nn/graph.h"
#include "oubli/nn/network_file.h"
#include "oubli/runtime/model_runner.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;

const nn::Parameter& parameter(const nn::Network& network, const std::string& name) {
  const auto found = std::ranges::find(network.parameters(), name, &nn::Parameter::name);
  OUBLI_ASSERT(found != network.parameters().end());
  return *found;
}

Tensor tensor_of(const nn::Parameter& parameter) {
  const auto bytes = std::as_bytes(std::span(parameter.values));
  return {DType::f32, parameter.shape, {bytes.begin(), bytes.end()}};
}

// The samples of the run as the bytes that training saw.
ImageSet images_of(const CalibrationRun& run, const nn::NetworkSpec& spec,
                   std::span<const std::uint32_t> labels) {
  const SampleSource& source = run.source();
  const auto refuse = [&](const std::string& why) {
    fail(ErrorCode::usage,
         "{}: {}; method curvature takes the images that the network was trained on, {} x {} with "
         "{} channel(s), as bytes over 255",
         run.report().data, why, spec.height, spec.width, spec.channels);
  };
  const PreparationOptions& used = run.report().preparation_as_used;
  const auto none = [](double value) { return value == 0; };
  const auto one = [](double value) { return value == 1; };
  if (!used.scale) refuse("numbers, not images");
  if (std::abs(*used.scale * 255 - 1) > 1e-6 || !std::ranges::all_of(used.mean, none) ||
      !std::ranges::all_of(used.standard, one))
    refuse("prepared as " + run.report().preparation);
  if (labels.size() != source.size()) refuse("samples without a label");
  ImageSet set{source.name(), spec.channels, spec.height, spec.width, {}, {}, {}};
  set.labels.assign(labels.begin(), labels.end());
  for (std::size_t c = 0; c < spec.classes; ++c) set.class_names.push_back(std::to_string(c));
  set.pixels.resize(source.size() * set.image_size());
  const std::size_t area = spec.height * spec.width;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const Sample sample = source.read(i);
    if (!sample.image || sample.height != spec.height || sample.width != spec.width ||
        sample.channels != spec.channels)
      refuse(fmt::format("{} is {} x {} with {} channel(s)", sample.what, sample.height,
                         sample.width, sample.channels));
    std::uint8_t* const to = set.pixels.data() + i * set.image_size();
    for (std::size_t p = 0; p < area; ++p)
      for (std::size_t c = 0; c < spec.channels; ++c)
        to[c * area + p] = sample.pixels[p * spec.channels + c];
  }
  return set;
}

void require_enough(const ImageSet& images, const ForgetRequest& request) {
  std::vector<std::size_t> counts(images.classes());
  for (const std::uint32_t label : images.labels) ++counts[label];
  for (std::size_t j = 0; j < counts.size(); ++j)
    if (counts[j] < kCurvatureSamples)
      fail(
          ErrorCode::unfilterable,
          "{}: {} images of class {}; method curvature wants {} of each at least, and was measured "
          "with 1000",
          images.name, counts[j], class_label(j, request.class_names), kCurvatureSamples);
}

void add_warnings(const ForgetRequest& request, CurvaturePlan& plan) {
  plan.warnings.emplace_back(
      "method curvature is experimental: it changes the features, so that class means gathered "
      "before say nothing about the new model, and leaks are not looked for");
  if (plan.step.own_probability > kMostOwnProbability)
    plan.warnings.push_back(
        fmt::format("the step stopped short for the sake of accuracy: the old head still gives the "
                    "class {:.2f} "
                    "on its images, wanted {} at most",
                    plan.step.own_probability, kMostOwnProbability));
  if (request.forget.size() > 1)
    plan.warnings.emplace_back(
        "several classes at once: the guard looks at the mean over their images, and nothing was "
        "measured for it");
}

std::size_t largest(std::span<const double> row, std::span<const std::size_t> among) {
  return *std::ranges::max_element(among, {}, [&](std::size_t j) { return row[j]; });
}

// Retained and forgotten samples, and what the old model says of them: its features are those of
// the run, which found that its head does to them what it computes.
std::vector<std::size_t> old_labels(const ForgetInputs& inputs, const ClassSplit& split,
                                    CurvatureRun& run) {
  const HeadView& head = inputs.model->head();
  const std::vector<std::uint32_t>& labels = inputs.data->labels;
  std::vector<std::size_t> all(split.classes), cut_off;
  for (std::size_t j = 0; j < all.size(); ++j) all[j] = j;
  for_each_row_block(inputs.data->values, [&](std::size_t first, MatrixView<const double> block) {
    const Matrix<double> logits = logits_of(head, block);
    for (std::size_t i = 0; i < logits.rows(); ++i) {
      const std::size_t label = labels[first + i];
      cut_off.push_back(largest(logits.row(i), split.retained));
      if (split.forgets(label)) {
        ++run.forgotten;
        continue;
      }
      ++run.retained;
      run.right_before += largest(logits.row(i), all) == label ? 1U : 0U;
      run.right_cut_off += cut_off.back() == label ? 1U : 0U;
    }
  });
  return cut_off;
}

CurvatureRun run_both(const ForgetInputs& inputs, const ClassSplit& split, const ModelFile& written,
                      const std::stop_token& stop) {
  CurvatureRun run;
  const std::vector<std::size_t> before = old_labels(inputs, split, run);
  const std::vector<std::uint32_t>& labels = inputs.data->labels;
  inputs.run->run_all(
      written,
      [&](std::size_t first, const ModelOutputs& batch) {
        run.head_mismatch = std::max(run.head_mismatch, head_mismatch(written.head(), batch));
        for (std::size_t i = 0; i < batch.logits.rows(); ++i) {
          const auto row = batch.logits.row(i);
          const std::size_t now = split.retained[place_of_largest(row)];
          const bool flipped = now != before[first + i];
          if (split.forgets(labels[first + i])) {
            run.forgotten_flips += flipped ? 1U : 0U;
            continue;
          }
          run.retained_flips += flipped ? 1U : 0U;
          run.right_now += now == labels[first + i] ? 1U : 0U;
        }
      },
      stop);
  return run;
}

// What was written, read back: the named tensors as computed, and all others as they were.
void require_written(const StagedModel& staged, const nn::Network& old, const CurvaturePlan& plan) {
  const nn::Network found = network_for_curvature(*staged.written);
  for (const nn::Parameter& written : found.parameters()) {
    const bool changes = std::ranges::find(plan.tensors, written.name) != plan.tensors.end();
    if (written != parameter(changes ? plan.step.network : old, written.name))
      fail(ErrorCode::self_check,
           "the new model, read back, does not hold '{}' as it {}; nothing was written",
           written.name, changes ? "was computed" : "was");
  }
}

}  // namespace

void require_promises(const CurvatureRun& run) {
  if (!(run.head_mismatch <= 1))
    fail(ErrorCode::self_check,
         "the new model does not compute what its head says: W f + b differs from its logits by "
         "{:.3g} times what rounding explains; nothing was written",
         run.head_mismatch);
  const auto share = [&](std::size_t right) {
    return static_cast<double>(right) / static_cast<double>(run.retained);
  };
  if (share(run.right_now) < share(run.right_cut_off) - kCurvatureAccuracyLoss)
    fail(ErrorCode::self_check,
         "the step costs too much: of {} samples of retained classes {:.2f} % are right, {:.2f} % "
         "if the class is merely cut off, and at most {} points may be lost; nothing was written. "
         "More training images may help; else use --method explained",
         run.retained, 100 * share(run.right_now), 100 * share(run.right_cut_off),
         100 * kCurvatureAccuracyLoss);
}

nn::Network network_for_curvature(const ModelFile& model) {
  const auto refuse = [&](const std::string& why) {
    fail(ErrorCode::unfilterable,
         "{}: method curvature (experimental) follows gradients, and is for networks that 'oubli "
         "train' wrote: {}; --method explained is for any file",
         model.path().string(), why);
  };
  const auto* const onnx = dynamic_cast<const OnnxModel*>(&model);
  auto network = onnx != nullptr ? nn::network_in(onnx->model()) : std::nullopt;
  if (!network) refuse("this file is none");
  std::size_t layers = 0;
  for (const nn::LayerSpec& layer : network->network.spec().layers) {
    using enum nn::LayerKind;
    if (layer.kind == batch_norm)
      refuse("it has batch normalisation, whose statistics a step upsets");
    if (layer.kind == residual) refuse("it has branches, so that no one layer is before the head");
    if (layer.kind != dense && layer.kind != conv) continue;
    if (!layer.bias) refuse("it has a layer without a bias");
    ++layers;
  }
  if (layers == 0) refuse("it has no layer before the head");
  return std::move(network->network);
}

std::vector<std::string> curvature_tensors(const nn::Network& network) {
  std::vector<std::string> names;
  const nn::Graph graph = compile(network.spec());
  for (const nn::Op& op : graph.ops)
    if (op.kind == nn::OpKind::dense || op.kind == nn::OpKind::conv)
      for (const std::size_t p : {op.weight, op.bias}) names.push_back(graph.parameters[p].name);
  OUBLI_ASSERT(names.size() >= 4);
  return {names.end() - 4, names.end()};
}

TensorView layer_before_head(const nn::Network& network) {
  const nn::Parameter& weights = parameter(network, curvature_tensors(network).front());
  return {DType::f32,
          {weights.shape[0], weights.values.size() / weights.shape[0]},
          std::as_bytes(std::span(weights.values)),
          weights.name};
}

std::unique_ptr<ModelFile> with_layer_of(const ModelFile& model, const nn::Network& from,
                                         const fs::path& folder) {
  const auto& file = dynamic_cast<const OnnxModel&>(model).model();
  const std::span<const std::byte> all = file.bytes();
  std::vector<std::byte> bytes(all.begin(), all.end());
  const std::vector<std::string> names = curvature_tensors(from);
  for (const std::string& name : std::span(names).first(2)) {
    const onnx::TensorInfo* const info = file.graph().initializer(name);
    OUBLI_ASSERT(info != nullptr);
    const SharedTensor old = file.load(*info);
    const Tensor now = tensor_of(parameter(from, name));
    const std::less_equal<> before;  // of addresses, wherever they are
    if (!before(all.data(), old.bytes.data()) ||
        !before(old.bytes.data() + old.bytes.size(), all.data() + all.size()))
      fail(ErrorCode::unfilterable,
           "{}: '{}' is not stored as raw numbers in the file itself, where method curvature puts "
           "others",
           model.path().string(), name);
    if (old.shape != now.shape)
      fail(ErrorCode::bad_input, "'{}' is {}, wanted the shape that it has in {}", name,
           describe(now.view(name)), model.path().string());
    std::memcpy(bytes.data() + (old.bytes.data() - all.data()), now.bytes.data(), now.bytes.size());
  }
  const fs::path path = folder / model.path().filename();
  write_file(path, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return std::make_unique<OnnxModel>(path);
}

CurvaturePlan plan_curvature(const ForgetInputs& inputs, const ForgetRequest& request,
                             const std::stop_token& stop) {
  if (inputs.run == nullptr || inputs.run->stands_in() || !inputs.data)
    fail(ErrorCode::usage, "method curvature needs the images: --data");
  const nn::Network network = network_for_curvature(*inputs.model);
  if (!request.ignore_accuracy) inputs.run->check_alignment(request.forget, request.class_names);
  const ImageSet images = images_of(*inputs.run, network.spec(), inputs.data->labels);
  require_enough(images, request);
  throw_if_stopped(stop);
  const ClassSplit split = split_for_deletion(network.classes(), request.forget);
  nn::TrainOptions recipe;  // addresses random numbers
  recipe.seed = request.seed;
  GuardedStep step = guarded_curvature_step(
      {.network = network, .train = images, .split = split, .recipe = recipe, .stop = stop});
  for (const nn::Parameter& made : step.network.parameters())
    if (!std::ranges::all_of(made.values, [](float x) { return std::isfinite(x); }))
      fail(ErrorCode::unfilterable, "method curvature: the step gives numbers that are not finite");
  throw_if_stopped(stop);
  CurvaturePlan plan{.split = split,
                     .step = std::move(step),
                     .tensors = curvature_tensors(network),
                     .new_head = {},
                     .warnings = {},
                     .digests = digests_of(inputs, stop)};
  plan.new_head.weights = tensor_of(parameter(plan.step.network, plan.tensors[2]));
  plan.new_head.bias = tensor_of(parameter(plan.step.network, plan.tensors[3]));
  add_warnings(request, plan);
  return plan;
}

CurvatureOutcome carry_out_curvature(const ForgetInputs& inputs, const ForgetRequest& request,
                                     const CurvaturePlan& plan, const ForgetOutputs& outputs,
                                     const std::stop_token& stop) {
  Delivery delivery(inputs, request, plan.digests, outputs, stop);
  delivery.check_places();
  const TemporaryFolder folder;
  const auto stepped = with_layer_of(*inputs.model, plan.step.network, folder.path());
  delivery.take(stepped->stage(plan.new_head, plan.split.retained, outputs.model, outputs.replace));
  const StagedModel& staged = delivery.staged();
  const nn::Network old = network_for_curvature(*inputs.model);
  CurvatureOutcome outcome;
  require_written(staged, old, plan);
  outcome.written_check = check_staged(staged, inputs.model->head(), plan.new_head, plan.split);
  outcome.old_layer_absent = check_old_layer(
      staged, layer_before_head(old), layer_before_head(plan.step.network), outcome.written_check);
  outcome.run = run_both(inputs, plan.split, *staged.written, stop);
  require_promises(outcome.run);
  outcome.written = delivery.digest_model();
  outcome.head_sha256 = head_digest(staged.written->head());
  delivery.look_for_names();
  std::ranges::move(delivery.write_class_names(plan.split.retained),
                    std::back_inserter(outcome.written));
  outcome.findings = std::move(delivery.staged().findings);
  outcome.receipt =
      make_curvature_receipt(inputs, request, plan, outcome, *staged.written, outputs);
  delivery.write_receipt(outcome.receipt);
  delivery.commit();
  return outcome;
}

}  // namespace oubli
