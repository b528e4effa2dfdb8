#include <algorithm>

#include "oubli/audit/audit.h"
#include "oubli/base/json_fields.h"

namespace oubli {
namespace {

using nlohmann::json;

constexpr const char* kIntervals =
    "95 %; advantages: bootstrap over the test models, attacks as fitted (Welch's with few "
    "of them); AUC: by network, Student's t; true positives: bootstrap; the verdict's hold for all "
    "attacks at once (max-t); KS: jackknife over all models, the spread of a statistic that is "
    "above 0 even "
    "between equal populations: compare it with the floor, not with 0";

json or_null(const std::optional<MeanStd>& figure) {
  return figure ? json(*figure) : json(nullptr);
}

void add_reason(json& out, const char* key, const std::string& reason) {
  if (!reason.empty()) out[key] = reason;
}

void check_labels(const AuditResult& result) {
  if (!std::ranges::is_sorted(result.forgotten, std::ranges::less_equal{}))
    fail(ErrorCode::bad_input, "forgotten: classes that are not in ascending order");
  if (!result.forgotten.empty() && result.classes != 0 && result.forgotten.back() >= result.classes)
    fail(ErrorCode::bad_input, "forgotten: class {}, but there are {} classes",
         result.forgotten.back(), result.classes);
  if (!result.class_names.empty() && result.classes != 0 &&
      result.class_names.size() != result.classes)
    fail(ErrorCode::bad_input, "class_names: {} names for {} classes", result.class_names.size(),
         result.classes);
}

}  // namespace

std::optional<AuditResult::Worst> AuditResult::worst() const {
  std::optional<Worst> worst;
  for (const ClassLeaks& of_class : leaks.classes) {
    if (!of_class.forgotten) continue;
    for (const ObserverLeak& leak : of_class.observers)
      if (const AttackLeak* of_observer = leak.worst();
          of_observer != nullptr &&
          (!worst || *of_observer->advantage.value > *worst->attack.advantage.value))
        worst = {of_class.label, leak.observer, *of_observer};
  }
  return worst;
}

void to_json(json& out, const QualityFigures& quality) {
  out = {{"population", quality.population},
         {"accuracy", or_null(quality.accuracy)},
         {"loss", or_null(quality.loss)}};
  add_reason(out, "reason", quality.reason);
}

void from_json(const json& in, QualityFigures& quality) {
  require_field(in, "population", quality.population);
  read_field(in, "accuracy", quality.accuracy);
  read_field(in, "loss", quality.loss);
  read_field(in, "reason", quality.reason);
}

void to_json(json& out, const FlipFigures& flips) {
  out = {{"all", or_null(flips.all)},
         {"forgotten", or_null(flips.forgotten)},
         {"correct", or_null(flips.correct)}};
  add_reason(out, "reason", flips.reason);
}

void from_json(const json& in, FlipFigures& flips) {
  read_field(in, "all", flips.all);
  read_field(in, "forgotten", flips.forgotten);
  read_field(in, "correct", flips.correct);
  read_field(in, "reason", flips.reason);
}

void to_json(json& out, const Misclassification& bars) {
  out = {{"class", bars.label}, {"population", bars.population}, {"shares", bars.shares}};
}

void from_json(const json& in, Misclassification& bars) {
  require_field(in, "class", bars.label);
  require_field(in, "population", bars.population);
  require_field(in, "shares", bars.shares);
}

void to_json(json& out, const ProbeFigures& probe) {
  out = {{"class", probe.label},
         {"seen", or_null(probe.seen)},
         {"unseen", or_null(probe.unseen)},
         {"seen_models", probe.seen_models},
         {"unseen_models", probe.unseen_models},
         {"recall_seen", or_null(probe.recall_seen)},
         {"recall_unseen", or_null(probe.recall_unseen)},
         {"cka", or_null(probe.cka)},
         {"cka_floor", or_null(probe.cka_floor)},
         {"sentence", probe.sentence}};
  add_reason(out, "layer", probe.layer);
  // "reason" is what there was before each had its own.
  add_reason(out, "reason", !probe.seen ? probe.seen_reason : probe.unseen_reason);
  add_reason(out, "seen_reason", probe.seen_reason);
  add_reason(out, "unseen_reason", probe.unseen_reason);
}

void from_json(const json& in, ProbeFigures& probe) {
  require_field(in, "class", probe.label);
  read_field(in, "seen", probe.seen);
  read_field(in, "unseen", probe.unseen);
  read_field(in, "seen_models", probe.seen_models);
  read_field(in, "unseen_models", probe.unseen_models);
  read_field(in, "recall_seen", probe.recall_seen);
  read_field(in, "recall_unseen", probe.recall_unseen);
  read_field(in, "cka", probe.cka);
  read_field(in, "cka_floor", probe.cka_floor);
  read_field(in, "sentence", probe.sentence);
  read_field(in, "layer", probe.layer);
  if (!probe.seen) read_field(in, "reason", probe.seen_reason);
  if (!probe.unseen) read_field(in, "reason", probe.unseen_reason);
  read_field(in, "seen_reason", probe.seen_reason);
  read_field(in, "unseen_reason", probe.unseen_reason);
}

void to_json(json& out, const AuditResult& result) {
  out = {{"format", "oubli-audit"},
         {"version", 1},
         {"models", {{"seen", result.models_seen}, {"unseen", result.models_unseen}}},
         {"samples", result.samples},
         {"classes", result.classes},
         {"class_names", result.class_names},
         {"forgotten", result.forgotten},
         {"leaks", result.leaks},
         {"worst", nullptr},
         {"warnings", result.warnings},
         {"quality", result.quality},
         {"flips", result.flips},
         {"misclassification", result.misclassification},
         {"probes", result.probes},
         {"verdict", result.verdict},
         {"forgetting", result.forgetting},
         {"options",
          {{"train_share", result.options.train_share},
           {"images_forgotten", result.options.images_forgotten},
           {"images_retained", result.options.images_retained},
           {"directions", result.options.directions},
           {"bootstrap", result.options.bootstrap},
           {"answers", result.options.answers},
           {"intervals", kIntervals},
           {"seed", result.options.seed}}}};
  out["floor"] = result.floor ? json(*result.floor) : json{{"reason", result.floor_reason}};
  add_reason(out, "leaks_reason", result.leaks_reason);
  if (result.models_unseen2) out["models"]["unseen2"] = *result.models_unseen2;
  if (const auto worst = result.worst())
    out["worst"] = {{"class", worst->label},
                    {"observer", name_of(worst->observer)},
                    {"attack", name_of(worst->attack.attack)},
                    {"answers", worst->attack.answers},
                    {"advantage", worst->attack.advantage}};
}

void from_json(const json& in, AuditResult& result) {
  result = {};
  if (const json& models = member(in, "models"); !models.is_null())
    at_place("models", [&] {
      read_field(models, "seen", result.models_seen);
      read_field(models, "unseen", result.models_unseen);
      read_field(models, "unseen2", result.models_unseen2);
    });
  read_field(in, "samples", result.samples);
  read_field(in, "classes", result.classes);
  read_field(in, "class_names", result.class_names);
  read_field(in, "forgotten", result.forgotten);
  check_labels(result);
  read_field(in, "leaks", result.leaks);
  if (const json& floor = member(in, "floor"); !floor.is_null())
    at_place("floor", [&] {
      read_field(floor, "reason", result.floor_reason);
      if (floor.contains("forgotten")) read_value(floor, result.floor);
    });
  read_field(in, "warnings", result.warnings);
  read_field(in, "quality", result.quality);
  read_field(in, "flips", result.flips);
  read_field(in, "misclassification", result.misclassification);
  read_field(in, "probes", result.probes);
  read_field(in, "leaks_reason", result.leaks_reason);
  read_field(in, "verdict", result.verdict);
  read_field(in, "forgetting", result.forgetting);
  if (const json& options = member(in, "options"); !options.is_null())
    at_place("options", [&] {
      read_field(options, "train_share", result.options.train_share);
      read_field(options, "images_forgotten", result.options.images_forgotten);
      read_field(options, "images_retained", result.options.images_retained);
      read_field(options, "directions", result.options.directions);
      read_field(options, "bootstrap", result.options.bootstrap);
      read_field(options, "answers", result.options.answers);
      read_field(options, "seed", result.options.seed);
    });
}

}  // namespace oubli
