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

template <typename Fields>
void members(Fields& fields, QualityFigures& quality) {
  fields.required("population", quality.population);
  fields("accuracy", quality.accuracy);
  fields("loss", quality.loss);
  fields.unless_empty("reason", quality.reason);
}

template <typename Fields>
void members(Fields& fields, FlipFigures& flips) {
  fields("all", flips.all);
  fields("forgotten", flips.forgotten);
  fields("correct", flips.correct);
  fields.unless_empty("reason", flips.reason);
}

template <typename Fields>
void members(Fields& fields, Misclassification& bars) {
  fields.required("class", bars.label);
  fields.required("population", bars.population);
  fields.required("shares", bars.shares);
}

template <typename Fields>
void members(Fields& fields, ProbeFigures& probe) {
  fields.required("class", probe.label);
  fields("seen", probe.seen);
  fields("unseen", probe.unseen);
  fields("seen_models", probe.seen_models);
  fields("unseen_models", probe.unseen_models);
  fields.unless_empty("layer", probe.layer);
  fields("recall_seen", probe.recall_seen);
  fields("recall_unseen", probe.recall_unseen);
  fields("cka", probe.cka);
  fields("cka_floor", probe.cka_floor);
  fields("cka_before", probe.cka_before);
  fields("sentence", probe.sentence);
  // "reason" is what there was before each had its own.
  const std::string& older = !probe.seen ? probe.seen_reason : probe.unseen_reason;
  if (!older.empty()) fields.written("reason", older);
  fields.unless_empty("seen_reason", probe.seen_reason);
  fields.unless_empty("unseen_reason", probe.unseen_reason);
}

void from_json(const json& in, ProbeFigures& probe) {
  from_json<ProbeFigures>(in, probe);
  if (!probe.seen && probe.seen_reason.empty()) read_field(in, "reason", probe.seen_reason);
  if (!probe.unseen && probe.unseen_reason.empty()) read_field(in, "reason", probe.unseen_reason);
}

template <typename Fields>
void members(Fields& fields, AuditResult& result) {
  fields.object("models", [&](auto& models) {
    models("seen", result.models_seen);
    models("unseen", result.models_unseen);
    models.unless_empty("unseen2", result.models_unseen2);
  });
  fields("samples", result.samples);
  fields("classes", result.classes);
  fields("class_names", result.class_names);
  fields("forgotten", result.forgotten);
  fields("leaks", result.leaks);
  fields("warnings", result.warnings);
  fields("quality", result.quality);
  fields("flips", result.flips);
  fields("misclassification", result.misclassification);
  fields("probes", result.probes);
  fields.unless_empty("leaks_reason", result.leaks_reason);
  fields("verdict", result.verdict);
  fields("forgetting", result.forgetting);
  fields.object("options", [&](auto& options) {
    options("train_share", result.options.train_share);
    options("images_forgotten", result.options.images_forgotten);
    options("images_retained", result.options.images_retained);
    options("directions", result.options.directions);
    options("bootstrap", result.options.bootstrap);
    options("answers", result.options.answers);
    options("seed", result.options.seed);
    options.written("intervals", kIntervals);
  });
}

void to_json(json& out, const AuditResult& result) {
  to_json<AuditResult>(out, result);
  out["format"] = "oubli-audit";
  out["version"] = 1;
  out["floor"] = result.floor ? json(*result.floor) : json{{"reason", result.floor_reason}};
  out["worst"] = nullptr;
  if (const auto worst = result.worst())
    out["worst"] = {{"class", worst->label},
                    {"observer", name_of(worst->observer)},
                    {"attack", name_of(worst->attack.attack)},
                    {"answers", worst->attack.answers},
                    {"advantage", worst->attack.advantage}};
}

void from_json(const json& in, AuditResult& result) {
  result = {};
  from_json<AuditResult>(in, result);
  check_labels(result);
  if (const json& floor = member(in, "floor"); !floor.is_null())
    at_place("floor", [&] {
      read_field(floor, "reason", result.floor_reason);
      if (floor.contains("forgotten")) read_value(floor, result.floor);
    });
}

}  // namespace oubli
