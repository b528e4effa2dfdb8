#include "oubli/forget/receipt.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "oubli/base/digest.h"
#include "oubli/base/json.h"
#include "oubli/base/version.h"
#include "oubli/forget/masked.h"
#include "oubli/forget/signature.h"

namespace oubli {
namespace {

using Json = nlohmann::ordered_json;

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json solver_json(const SolverReport& report) {
  return {{"chosen", name_of(report.chosen)},
          {"reason", report.reason},
          {"tried", report.tried},
          {"conditioning", report.conditioning},
          {"gain", report.gain},
          {"gain_measured", report.gain_measured},
          {"residual_forgotten", report.residual_forgotten},
          {"residual_retained", report.residual_retained}};
}

// What method explained stands on; the reason if it was not carried out.
Json explained_json(const Explanation& explanation) {
  if (!explanation.too_few.empty())
    return {{"carried_out", false}, {"instead", "normalization"}, {"reason", explanation.too_few}};
  return {{"carried_out", true},
          {"rho", explanation.rho},
          {"spread_from", name_of(explanation.from)},
          {"rows", explanation.rows},
          {"share_explained", explanation.kept}};
}

// Old index, new index (null if forgotten), name (of retained classes only), samples.
Json classes_json(const ForgetRequest& request, const ForgetPlan& plan) {
  Json list = Json::array();
  for (std::size_t j = 0; j < plan.split().classes; ++j) {
    const auto now = plan.split().new_index(j);
    Json entry{{"old", j}, {"new", now ? Json(*now) : Json()}};
    if (now && !request.class_names.empty()) entry["name"] = request.class_names[j];
    if (plan.means) entry["samples"] = plan.means->counts[j];
    list.push_back(std::move(entry));
  }
  return list;
}

Json calibration_json(const ForgetInputs& inputs, const ForgetRequest& request,
                      const ForgetPlan& plan, const Masked& masked) {
  if (!plan.means) return {};
  Json json{{"means_of", name_of(plan.means->space)},
            {"from", inputs.means ? "means file" : "data"}};
  if (inputs.means) json["means_files"] = masked.files(plan.digests.means);
  if (inputs.data) json["data_files"] = masked.files(plan.digests.data);
  if (inputs.data && inputs.data->left_out != 0)
    json["left_out_without_label"] = inputs.data->left_out;
  if (!inputs.means) {
    const SampleChoice& samples = request.samples;
    json["samples_per_class"] = samples.per_class ? Json(*samples.per_class) : Json("all");
    if (samples.per_class) json["samples_random"] = samples.random;
  }
  return json;
}

Json self_check_json(const HeadCheck& head, const WrittenCheck& written) {
  return {{"mean_identity_on", head.on_class_means ? "class means" : "random vectors"},
          {"vectors", head.identity.classes_checked},
          {"largest_error", head.identity.largest_error},
          {"error_over_bound", head.identity.largest_ratio},
          {"written_head_is_the_computed_one", true},  // else there is no receipt
          {"forgotten_rows_absent", written.forgotten_rows_absent}};
}

// A head in whole numbers: those of the old one, fresh ones, or floats.
Json quantised_json(const ModelFile& model, const std::optional<RoundingCheck>& rounding) {
  if (!model.quantised()) return {};
  Json json{{"new_head", model.becomes_floats() ? "floats"
                         : rounding             ? "whole numbers on fresh scales"
                                                : "the whole numbers of the old one"}};
  if (rounding)
    json["rounding"] = {{"logits_are_off_by_at_most", "weight_step / 2 |f|_1 + bias_step / 2"},
                        {"weight_step", rounding->weight_step},
                        {"bias_step", rounding->bias_step},
                        {"step_over_that_of_the_old_head", rounding->coarser},
                        {"bound", rounding->bound},
                        {"error", rounding->error}};
  return json;
}

Json leaks_json(const LeakCheck& leaks) {
  Json rows = Json::array();
  for (const LeakRow& row : leaks.rows) {
    Json entry{{"class", row.forgotten_class},
               {"samples", row.samples},
               {"observer", name_of(row.observer)}};
    if (row.ghost) entry["ghost_logit"] = {{"naive", *row.ghost_naive}, {"chosen", *row.ghost}};
    if (row.readout)
      entry["linear_readout"] = {{"naive", optional_json(row.readout_naive)},
                                 {"chosen", optional_json(row.readout)}};
    rows.push_back(std::move(entry));
  }
  return {
      {"figure", "max(AUC, 1 - AUC) of: is this input of the forgotten class?"},
      {"floor",
       "unknown here and not 0.5: a network retrained without the class treats its inputs in its "
       "own way too; 'oubli audit' measures against retrained ones"},
      {"samples", leaks.samples},
      {"label_flips_against_naive", leaks.label_flips},
      {"label_flips_samples", leaks.label_samples},
      {"retained_label_flips", leaks.kept_flips},
      {"retained_samples", leaks.kept_samples},
      {"retained_right", {{"naive", leaks.kept_right}, {"chosen", leaks.kept_right_now}}},
      {"rows", std::move(rows)}};
}

Json run_check_json(const RunCheck& check, const Masked& masked) {
  Json json{{"inputs", check.inputs},
            {"samples", check.samples},
            {"features_difference_over_bound", check.features_over_bound},
            {"head_error_over_bound", check.head_mismatch}};
  if (check.kept_accuracy_before) {
    json["kept_classes_accuracy_before"] = *check.kept_accuracy_before;
    json["kept_classes_accuracy_after"] = *check.kept_accuracy_after;
  }
  if (check.compared_with_naive) {
    json["label_flips_against_naive"] = check.label_flips;
    json["centred_logits_largest_difference"] = check.largest_difference;
    json["centred_logits_difference_over_bound"] = check.largest_ratio;
  }
  json["outputs"] = Json::object();
  for (const auto& [name, function] : check.outputs) json["outputs"][masked.name(name)] = function;
  json["outputs_not_compared"] = Json::array();
  for (const std::string& name : check.outputs_not_compared)
    json["outputs_not_compared"].push_back(masked.name(name));
  return json;
}

std::vector<std::string> not_checked(const ForgetInputs& inputs, const ForgetOutcome& outcome,
                                     const Masked& masked) {
  std::vector<std::string> list;
  if (outcome.written_check) list = outcome.written_check->not_checked;
  if (!inputs.data) list.push_back("leaks: no data was given");
  if (!outcome.run_check.not_run.empty())
    list.push_back("whether the new file computes what it should: it was not run: " +
                   masked.name(outcome.run_check.not_run));
  if (outcome.leaks)
    list.insert(list.end(), outcome.leaks->not_checked.begin(), outcome.leaks->not_checked.end());
  list.push_back("whether the model's other layers still know the class (they do)");
  list.push_back("whether copies of the old model, its means or its data exist elsewhere");
  return list;
}

}  // namespace

std::set<std::string> names_of_class(const ModelFile& model, const ForgetRequest& request,
                                     std::size_t c) {
  std::set<std::string> names;
  if (!request.class_names.empty()) names.insert(request.class_names[c]);
  if (const auto own = model.class_names()) names.insert((*own)[c]);
  return names;
}

std::string seed_digest(std::uint64_t seed) {
  return sha256_hex(as_bytes(fmt::format("oubli randomization seed {}", seed)));
}

std::vector<std::string> warnings_of(const ForgetPlan& plan, const ForgetOutcome& outcome) {
  std::vector<std::string> warnings = plan.warnings;
  if (outcome.leaks) std::ranges::copy(outcome.leaks->warnings, std::back_inserter(warnings));
  if (outcome.written_check)
    std::ranges::copy(outcome.written_check->warnings, std::back_inserter(warnings));
  return warnings;
}

const std::vector<std::string>& limits_of_the_method() {
  static const std::vector<std::string> limits{
      "Filtration aims at weak (black-box) unlearning: that the outputs look like those of a "
      "network that never saw the class. It is not retraining.",
      "Normalization and naive deletion give the same probabilities and labels; they differ only "
      "for somebody who sees logits. Method explained is worth asking for where people see "
      "probabilities and do not know the pictures: it mostly shows less there, for some classes "
      "more, and it changes some labels.",
      "The features still know the class: a linear probe on them finds it again. With the affine "
      "and "
      "ridge solvers the new logits can show a direction of the features that the old ones did "
      "not.",
      "The old model, its external data, its means file and all backups and copies must be deleted "
      "as well; this receipt does not prove that they were.",
      "A class deleted earlier drifts a little when later ones are deleted; requests done together "
      "leave less.",
      "Single samples are not deleted, only whole classes.",
      "Whether this satisfies a law is for lawyers to say."};
  return limits;
}

Json head_json(const ModelFile& model, const std::string& sha256) {
  const HeadView& head = model.head();
  return {{"name", model.head_name()},
          {"format", model.format()},
          {"dtype", name_of(head.weights.dtype)},
          {"classes", head.classes()},
          {"features", head.features()},
          {"layout", head.transposed ? "features x classes" : "classes x features"},
          {"bias", head.bias.has_value()},
          {"sha256", sha256}};
}

Json plan_json(const ForgetInputs& inputs, const ForgetRequest& request, const ForgetPlan& plan,
               const ForgetOutcome& outcome) {
  const Masked masked(inputs, request);
  Json json;
  json["request"] = {{"forget", request.forget},
                     {"method", name_of(request.method)},
                     {"solver", name_of(request.solver)}};
  if (inputs.model->becomes_floats()) json["request"]["float_head"] = true;
  if (request.method == Method::explained) json["request"]["explain"] = request.explain;
  if (request.ignore_accuracy) json["request"]["ignore_accuracy"] = true;
  if (request.method == Method::randomization && !request.keep_seed)
    json["request"]["seed_sha256"] = seed_digest(request.seed);
  else
    json["request"]["seed"] = request.seed;
  if (request.custom_target)
    json["request"]["target_sha256"] =
        sha256_hex(std::as_bytes(std::span<const double>(request.custom_target->flat())));
  if (!is_utf8(request.note))
    fail(ErrorCode::usage, "--note: wanted text in UTF-8, which is all that a receipt can hold");
  if (!request.note.empty()) json["request"]["note"] = request.note;
  json["calibration"] = calibration_json(inputs, request, plan, masked);
  json["solver"] = plan.filtration.solver ? solver_json(*plan.filtration.solver) : Json();
  if (plan.filtration.explanation) json["explained"] = explained_json(*plan.filtration.explanation);
  json["rows_summed_to_zero"] = plan.filtration.rows_summed_to_zero();
  json["rows_centred"] = plan.filtration.centred;
  json["classes"] = classes_json(request, plan);
  if (const Json quantised = quantised_json(*inputs.model, plan.rounding_check);
      !quantised.is_null())
    json["quantised"] = quantised;
  json["bias_added"] = plan.new_head.bias_added;
  if (inputs.run != nullptr) json["run"] = masked.run(inputs.run->report());
  if (outcome.run_check.check)
    (inputs.run != nullptr && !inputs.run->stands_in() ? json["run"]["new_model"]
                                                       : json["run_on_random_inputs"]) =
        run_check_json(*outcome.run_check.check, masked);
  json["leak_check"] = outcome.leaks ? leaks_json(*outcome.leaks) : Json();
  json["not_checked"] = not_checked(inputs, outcome, masked);
  json["warnings"] = warnings_of(plan, outcome);
  json["limits"] = limits_of_the_method();
  return json;
}

std::string receipt_text(const ForgetInputs& inputs, const ForgetRequest& request,
                         const InputDigests& digests, const NewModel& outcome,
                         const ModelFile& written, const ForgetOutputs& outputs,
                         const Json& answer) {
  Json receipt{{"format", kReceiptFormat},
               {"version", kReceiptVersion},
               {"program",
                {{"version", kVersion}, {"compiler", kCompiler}, {"architecture", kArchitecture}}}};
  const Masked masked(inputs, request);
  receipt["input"] = {{"files", masked.files(digests.model)},
                      {"head", masked.head(*inputs.model, digests.head)}};
  receipt["output"] = {{"files", masked.files(outcome.written)},
                       {"head", masked.head(written, outcome.head_sha256)}};
  receipt["previous_receipt_sha256"] =
      outputs.previous_receipt ? Json(sha256_file(*outputs.previous_receipt)) : Json();
  receipt.update(answer);
  std::vector<Finding> findings = inputs.model->findings();
  findings.insert(findings.end(), outcome.findings.begin(), outcome.findings.end());
  receipt["findings"] = masked.findings(findings);
  if (outputs.signing_key) sign_receipt(receipt, *outputs.signing_key);
  return to_text(receipt, 1) + "\n";
}

std::string make_receipt(const ForgetInputs& inputs, const ForgetRequest& request,
                         const ForgetPlan& plan, const ForgetOutcome& outcome,
                         const ModelFile& written, const ForgetOutputs& outputs) {
  Json answer = plan_json(inputs, request, plan, outcome);
  answer["self_check"] = self_check_json(plan.head_check, *outcome.written_check);
  return receipt_text(inputs, request, plan.digests, outcome, written, outputs, answer);
}

Json parse_receipt(std::string_view text, const std::string& what) {
  Json receipt = parse_json(text, what);
  if (!receipt.is_object() || receipt.value("format", Json()) != kReceiptFormat)
    fail(ErrorCode::bad_input, "{}: not a receipt of 'oubli forget'", what);
  const Json version = receipt.value("version", Json());
  if (!version.is_number_integer() || version < 1 || version > kReceiptVersion)
    fail(ErrorCode::bad_input, "{}: receipt of version {}, this program reads {}", what,
         to_text(version, -1), kReceiptVersion);
  return receipt;
}

std::optional<PreparationOptions> preparation_of(const Json& receipt) {
  const ReceiptPart whole(receipt);
  if (!whole.has("run") || !whole["run"].has("preparation")) return std::nullopt;
  const ReceiptPart part = whole["run"]["preparation"];
  const auto numbers = [&](const char* member) {
    std::vector<double> values;
    for (const ReceiptPart& value : part[member].list()) values.push_back(value.number());
    return values;
  };
  const std::string layout = part["layout"].text();
  if (layout != "nchw" && layout != "nhwc") part["layout"].refuse("nchw or nhwc");
  const std::vector<ReceiptPart> size = part["size"].list();
  if (size.size() != 2) part["size"].refuse("height and width");
  return PreparationOptions{.scale = part["scale"].number(),
                            .mean = numbers("mean"),
                            .standard = numbers("std"),
                            .channels_last = layout == "nhwc",
                            .colour = part["colour"].flag(),
                            .size = std::pair(size[0].whole_number(), size[1].whole_number())};
}

bool ReceiptPart::is_null() const { return value_->is_null(); }

bool ReceiptPart::is_text() const { return value_->is_string(); }

bool ReceiptPart::has(const char* member) const {
  if (!value_->is_object()) return false;
  const auto found = value_->find(member);
  return found != value_->end() && !found->is_null();
}

ReceiptPart ReceiptPart::operator[](const char* member) const {
  if (!value_->is_object()) refuse("an object");
  const std::string place = place_.empty() ? member : place_ + "." + member;
  const auto found = value_->find(member);
  if (found == value_->end()) fail(ErrorCode::bad_input, "the receipt is damaged: no {}", place);
  return {*found, place};
}

std::vector<ReceiptPart> ReceiptPart::list() const {
  if (!value_->is_array()) refuse("a list");
  std::vector<ReceiptPart> parts;
  for (const Json& value : *value_)
    parts.push_back(ReceiptPart(value, fmt::format("{}[{}]", place_, parts.size())));
  return parts;
}

std::string ReceiptPart::text() const {
  if (!value_->is_string()) refuse("a text");
  return value_->get<std::string>();
}

std::uint64_t ReceiptPart::whole_number() const {
  if (!value_->is_number_integer() ||
      (!value_->is_number_unsigned() && value_->get<std::int64_t>() < 0))
    refuse("a whole number");
  return value_->get<std::uint64_t>();
}

double ReceiptPart::number() const {
  if (!value_->is_number()) refuse("a number");
  return value_->get<double>();
}

bool ReceiptPart::flag() const {
  if (!value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

void ReceiptPart::refuse(const std::string& wanted) const {
  constexpr std::size_t kLongest = 40;
  std::string found = to_text(*value_, -1);
  if (found.size() > kLongest) found = fmt::format("of type {}", value_->type_name());
  fail(ErrorCode::bad_input, "the receipt is damaged: {} is {}, wanted {}", place_, found, wanted);
}

bool is_output_of(const Json& receipt, const std::string& sha256) {
  const Json files = receipt.value(Json::json_pointer("/output/files"), Json());
  return files.is_array() && std::ranges::any_of(files, [&](const Json& file) {
           return file.is_object() && file.value("sha256", Json()) == sha256;
         });
}

}  // namespace oubli
