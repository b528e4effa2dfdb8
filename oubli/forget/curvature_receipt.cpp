#include <algorithm>
#include <nlohmann/json.hpp>

#include "oubli/base/json.h"
#include "oubli/forget/curvature.h"
#include "oubli/forget/masked.h"
#include "oubli/forget/receipt.h"

namespace oubli {
namespace {

using Json = nlohmann::ordered_json;

Json request_json(const ForgetRequest& request) {
  if (!is_utf8(request.note))
    fail(ErrorCode::usage, "--note: wanted text in UTF-8, which is all that a receipt can hold");
  Json json{{"forget", request.forget},
            {"method", kCurvature},
            {"experimental", true},
            {"seed", request.seed}};
  if (request.ignore_accuracy) json["ignore_accuracy"] = true;
  if (!request.note.empty()) json["note"] = request.note;
  return json;
}

Json classes_json(const ForgetInputs& inputs, const ForgetRequest& request,
                  const ClassSplit& split) {
  std::vector<std::size_t> samples(split.classes);
  for (const std::uint32_t label : inputs.data->labels) ++samples[label];
  Json list = Json::array();
  for (std::size_t j = 0; j < split.classes; ++j) {
    const auto now = split.new_index(j);
    Json entry{{"old", j}, {"new", now ? Json(*now) : Json()}};
    if (now && !request.class_names.empty()) entry["name"] = request.class_names[j];
    entry["samples"] = samples[j];
    list.push_back(std::move(entry));
  }
  return list;
}

Json step_json(const CurvaturePlan& plan) {
  const GuardedStep& step = plan.step;
  return {{"tensors_changed", plan.tensors},
          {"scale", step.scale},
          {"samples", {{"retained", step.retained}, {"forgotten", step.forgotten}}},
          {"own_probability",
           {{"before", step.own_probability_before},
            {"now", step.own_probability},
            {"wanted", {kLeastOwnProbability, kMostOwnProbability}}}},
          {"retained_accuracy_of_samples",
           {{"cut_off", step.accuracy_before}, {"now", step.accuracy}}}};
}

Json run_check_json(const CurvatureRun& run) {
  return {{"inputs", "all samples"},
          {"retained_samples", run.retained},
          {"retained_right",
           {{"before", run.right_before}, {"cut_off", run.right_cut_off}, {"now", run.right_now}}},
          {"retained_accuracy_may_fall_by", kCurvatureAccuracyLoss},
          {"retained_label_flips_against_naive", run.retained_flips},
          {"forgotten_samples", run.forgotten},
          {"forgotten_label_flips_against_naive", run.forgotten_flips},
          {"head_error_over_bound", run.head_mismatch}};
}

}  // namespace

const std::vector<std::string>& limits_of_curvature() {
  static const std::vector<std::string> limits{
      "Method curvature is experimental: it was measured on small networks (docs/methods.md), and "
      "ten answers still tell that the class was seen.",
      "It moves the layer before the head by one damped step; it is no proof that nothing of the "
      "class is left there, and the layers before that one are as they were.",
      "Whoever has the old model and the new one has the step, and with it a direction that the "
      "class asked for.",
      "Features are others now: class means gathered before, and means files, say nothing about "
      "the new model.",
      "Accuracy and labels were counted on the data of the request; if that is what the model was "
      "trained on, other data fare worse."};
  return limits;
}

std::string make_curvature_receipt(const ForgetInputs& inputs, const ForgetRequest& request,
                                   const CurvaturePlan& plan, const CurvatureOutcome& outcome,
                                   const ModelFile& written, const ForgetOutputs& outputs) {
  const Masked masked(inputs, request);
  Json answer;
  answer["request"] = request_json(request);
  answer["calibration"] = {
      {"means_of", nullptr}, {"from", "data"}, {"data_files", masked.files(plan.digests.data)}};
  answer["solver"] = nullptr;
  answer["curvature"] = step_json(plan);
  answer["classes"] = classes_json(inputs, request, plan.split);
  answer["bias_added"] = false;
  answer["run"] = masked.run(inputs.run->report());
  answer["run"]["new_model"] = run_check_json(outcome.run);
  answer["leak_check"] = nullptr;
  std::vector<std::string> not_checked = outcome.written_check.not_checked;
  not_checked.emplace_back("leaks: 'oubli audit' measures them against retrained networks");
  not_checked.emplace_back(
      "whether the layers before those changed still know the class (they do)");
  not_checked.emplace_back(
      "whether copies of the old model, its means or its data exist elsewhere");
  answer["not_checked"] = not_checked;
  std::vector<std::string> warnings = plan.warnings;
  std::ranges::copy(outcome.written_check.warnings, std::back_inserter(warnings));
  answer["warnings"] = warnings;
  std::vector<std::string> limits = limits_of_curvature();
  std::ranges::copy(limits_of_the_method(), std::back_inserter(limits));
  answer["limits"] = limits;
  answer["self_check"] = {{"written_tensors_are_the_computed_ones", true},  // else no receipt
                          {"other_tensors_unchanged", true},
                          {"forgotten_rows_absent", outcome.written_check.forgotten_rows_absent},
                          {"old_layer_absent", outcome.old_layer_absent}};
  return receipt_text(inputs, request, plan.digests, outcome, written, outputs, answer);
}

}  // namespace oubli
