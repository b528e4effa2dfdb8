#include "oubli/forget/random_run.h"

#include <array>
#include <nlohmann/json.hpp>

#include "oubli/base/apart.h"
#include "oubli/base/error.h"
#include "oubli/base/random.h"
#include "oubli/forget/run_comparison.h"
#include "oubli/runtime/engine.h"

namespace oubli {

namespace {

constexpr std::size_t kRandomSamples = 4;
// Where a file does not say how large an input is, e.g. the sides of images.
constexpr std::array<std::size_t, 3> kSides{32, 224, 1};
// Loading a model into an engine takes memory of its size, twice.
constexpr std::uintmax_t kLargestToRun = std::uintmax_t{1} << 30;

// Nobody asked for a run, and a file may say anything: 2 s and 10 s for every 100 MB of processor
// time, and as much memory beyond this process's own as keeps both within what docs/security.md
// promises of small files, 300 MB and 20 times the file.
ApartLimits limits_for(std::uintmax_t size) {
  return {.seconds = 2 + static_cast<unsigned>(size / 10'000'000),
          .memory = (std::uint64_t{192} << 20) + 16 * size};
}

struct RandomInputs {
  std::map<std::string, Tensor> tensors;
  [[nodiscard]] std::map<std::string, TensorView> views() const {
    std::map<std::string, TensorView> all;
    for (const auto& [name, tensor] : tensors) all.emplace(name, tensor.view(name));
    return all;
  }
};

// Numbers in [0, 1), whole ones 0 or 1, of the shape that the model declares.
RandomInputs random_inputs(const onnx::Model& model, std::size_t side) {
  RandomInputs inputs;
  RandomStream random(1, task_id("random inputs"));
  for (const onnx::ValueInfo& input : model.graph().inputs) {
    if (model.graph().initializer(input.name) != nullptr) continue;
    std::optional<DType> dtype = onnx::dtype_of(input.element_type);
    if (!dtype || !input.shape || input.shape->empty())
      fail(ErrorCode::unfilterable, "input '{}' is of unknown type or shape", input.name);
    if (*dtype == DType::bf16) dtype = DType::f32;  // as the engine runs it
    std::vector<std::size_t> shape;
    for (const onnx::Dimension& dim : *input.shape)
      shape.push_back(dim.value && *dim.value > 0 ? static_cast<std::size_t>(*dim.value)
                      : shape.empty()             ? kRandomSamples
                                                  : side);
    const std::size_t count = element_count(shape, input.name), size = size_of(*dtype);
    Tensor tensor{*dtype, shape, std::vector<std::byte>(count * size)};
    std::vector<double> values(is_float(*dtype) ? count : 0);
    for (double& value : values) value = random.uniform();
    if (is_float(*dtype)) encode(*dtype, values, tensor.bytes);
    for (std::size_t i = 0; !is_float(*dtype) && i < count; ++i)  // little-endian
      tensor.bytes[i * size] = static_cast<std::byte>(random.below(2));
    inputs.tensors.emplace(input.name, std::move(tensor));
  }
  if (inputs.tensors.empty()) fail(ErrorCode::unfilterable, "it takes no input");
  return inputs;
}

// A check as bytes, and back: it comes from another process.
std::string packed(const RunOutcome& outcome) {
  nlohmann::json json{{"not_run", outcome.not_run}};
  if (const auto& check = outcome.check)
    json["check"] = {check->inputs,
                     check->samples,
                     check->as_float,
                     check->features_over_bound,
                     check->head_mismatch,
                     check->compared_with_naive,
                     check->label_flips,
                     check->largest_difference,
                     check->largest_ratio,
                     check->outputs,
                     check->outputs_not_compared};
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(json);
  return {bytes.begin(), bytes.end()};
}

RunOutcome unpacked(const std::string& bytes) {
  const nlohmann::json json = nlohmann::json::from_cbor(bytes);
  RunOutcome outcome{std::nullopt, json.at("not_run")};
  if (!json.contains("check")) return outcome;
  RunCheck check;
  auto take = [&, next = std::size_t{0}](auto& member) mutable {
    json.at("check").at(next++).get_to(member);
  };
  take(check.inputs);
  take(check.samples);
  take(check.as_float);
  take(check.features_over_bound);
  take(check.head_mismatch);
  take(check.compared_with_naive);
  take(check.label_flips);
  take(check.largest_difference);
  take(check.largest_ratio);
  take(check.outputs);
  take(check.outputs_not_compared);
  outcome.check = std::move(check);
  return outcome;
}

RunOutcome run_both(const OnnxModel& old_model, const OnnxModel& new_model,
                    const HeadFilter& filter, const HeadRounding& rounding) {
  std::shared_ptr<const Engine> engine;
  std::unique_ptr<RunnableModel> before_model;
  try {
    engine = engine_for(old_model, std::nullopt);
    before_model = engine->load(old_model, number_outputs(old_model.model().graph()));
  } catch (const Error& error) {
    return {std::nullopt, error.what()};
  }
  std::string reason;
  for (const std::size_t side : kSides) {
    RandomInputs inputs;
    ModelOutputs before;
    std::size_t samples = 0;
    try {
      inputs = random_inputs(old_model.model(), side);
      samples = inputs.tensors.begin()->second.shape.front();
      before = before_model->run(inputs.views(), samples, true);
    } catch (const Error& error) {  // of the shape, perhaps
      if (reason.empty()) reason = error.what();
      continue;
    }
    RunComparison comparison(old_model, new_model, filter, rounding);
    try {
      const auto after_model = engine->load(new_model, number_outputs(new_model.model().graph()));
      comparison.add(before, after_model->run(inputs.views(), samples, true), {});
    } catch (const Error& error) {
      fail(ErrorCode::self_check, "the new model does not run: {}; nothing was written",
           error.what());
    }
    RunCheck check = comparison.finish();
    check.inputs = fmt::format("{} inputs of random numbers", samples);
    check.as_float = before_model->as_float();
    return {std::move(check), ""};
  }
  return {std::nullopt, reason};
}

}  // namespace

RunOutcome run_on_random_inputs(const ModelFile& old_file, const ModelFile& new_file,
                                const HeadFilter& filter, const HeadRounding& rounding,
                                const std::stop_token& stop) {
  const auto* const old_model = dynamic_cast<const OnnxModel*>(&old_file);
  const auto* const new_model = dynamic_cast<const OnnxModel*>(&new_file);
  if (old_model == nullptr || new_model == nullptr)
    return {std::nullopt, fmt::format("there is no engine for {} files", old_file.format())};
  std::uintmax_t size = 0;
  for (const auto& file : old_model->files()) size += std::filesystem::file_size(file);
  if (size > kLargestToRun)
    return {std::nullopt, fmt::format("the model is larger than {} MiB", kLargestToRun >> 20)};
  const ApartOutcome outcome =
      run_apart([&] { return packed(run_both(*old_model, *new_model, filter, rounding)); },
                limits_for(size), stop);
  if (!outcome.result) return {std::nullopt, outcome.ended};
  return unpacked(*outcome.result);
}

}  // namespace oubli
