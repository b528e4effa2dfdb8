#include "oubli/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "oubli/report/read_report.h"
#include "oubli/report/verdict.h"

namespace oubli::report {
namespace {

using enum TextTable::Align;
using AuditedMethods = std::vector<AuditedMethod>;

NamedTable quality_table(const AuditedMethods& methods) {
  NamedTable out{"Accuracy and loss on retained classes", "Mean ± standard deviation over models.",
                 TextTable({{"models"},
                            {"accuracy %, from the top-1 label", right},
                            {"loss, from the probabilities", right}})};
  const auto add = [&](const AuditResult& audit, const char* population, const std::string& name) {
    for (const QualityFigures& quality : audit.quality)
      if (quality.population == population)
        out.table.add_row({name, plus_minus(quality.accuracy, 100, 2, quality.reason),
                           plus_minus(quality.loss, 1, 3, quality.reason)});
  };
  add(methods.front().audit, "before", "before unlearning");
  add(methods.front().audit, "unseen", "retrained");
  for (const auto& [name, audit] : methods) add(audit, "seen", name);
  return out;
}

NamedTable flip_table(const AuditedMethods& methods) {
  NamedTable out{"Top-1 labels changed against naive deletion, in percent",
                 "Normalization changes none: it moves all logits of an input by the same amount.",
                 TextTable({{"method"},
                            {"all inputs", right},
                            {"forgotten class", right},
                            {"retained, correctly predicted", right}})};
  for (const auto& [name, audit] : methods) {
    const FlipFigures& flips = audit.flips;
    const bool any = flips.all || flips.forgotten || flips.correct;
    if (!any && flips.reason.empty()) continue;
    out.table.add_row({name, plus_minus(flips.all, 100, 2, flips.reason),
                       plus_minus(flips.forgotten, 100, 2, flips.reason),
                       plus_minus(flips.correct, 100, 2, flips.reason)});
    if (flips.all && flips.forgotten && flips.correct && !flips.reason.empty())
      out.reasons.push_back(fmt::format("{}: {}.", name, flips.reason));
  }
  return out;
}

using ByLabel = std::map<std::size_t, const ClassLeaks*>;

ByLabel by_label(const Leaks& leaks) {
  ByLabel out;
  for (const ClassLeaks& of_class : leaks.classes) out.try_emplace(of_class.label, &of_class);
  return out;
}

// The strongest attack on a class, or the first that could not be computed; `what` names the figure
// where a reason is given.
Figure strongest(const ByLabel& classes, std::size_t label, Observer observer,
                 const std::string& what, Reasons& why) {
  Figure best;
  const auto of_class = classes.find(label);
  if (of_class == classes.end()) return best;
  const ObserverLeak* leak = find(of_class->second->observers, observer);
  if (leak == nullptr) return best;
  for (const AttackLeak& attack : leak->attacks) {
    if (attack.advantage.value) continue;
    why.add(fmt::format("{}, {}", what, title_of(attack.attack, attack.answers)), attack.advantage);
    if (best.reason.empty()) best = attack.advantage;
  }
  if (const AttackLeak* worst = leak->worst()) best = worst->advantage;
  if (best.value) why.add(what, best);
  return best;
}

// Per class and observer, the strongest attack's advantage under each method.
NamedTable class_table(const Comparison& comparison) {
  NamedTable out{"Strongest attack, class by class",
                 "Advantage with its 95 % interval: 0 is guessing, 1 is certain.",
                 TextTable({{"class"}, {"observer"}})};
  std::vector<std::pair<std::string, ByLabel>> columns;  // the methods', then the floor's
  for (const auto& [name, audit] : comparison.methods)
    columns.emplace_back(name, by_label(audit.leaks));
  if (comparison.floor) columns.emplace_back("floor", by_label(*comparison.floor));
  for (const auto& [name, classes] : columns) out.table.columns.push_back({name, right});

  Reasons why;
  const AuditResult& first = comparison.methods.front().audit;
  for (const ClassLeaks& of_class : first.leaks.classes) {
    for (const ObserverLeak& leak : of_class.observers) {
      std::string name = class_name(first.class_names, of_class.label);
      if (of_class.forgotten) name += " (forgotten)";
      const std::string seen(leak.observer == Observer::label ? "top-1 label"
                                                              : name_of(leak.observer));
      std::vector<std::string> cells{name, seen};
      for (const auto& [column, classes] : columns)
        cells.push_back(to_text(strongest(classes, of_class.label, leak.observer,
                                          fmt::format("{}, {}, {}", name, seen, column), why)));
      out.table.add_row(std::move(cells));
    }
  }
  out.reasons = why.lines();
  return out;
}

NamedTable probe_table(const AuditResult& audit) {  // features are the same for every method
  NamedTable out{"Linear probe on the features",
                 "For an observer who holds the file, and so the features.",
                 TextTable({{"class"},
                            {"models that saw it: AUC", right},
                            {"retrained: AUC", right},
                            {"models that saw it: recall", right},
                            {"retrained: recall", right}})};
  for (const ProbeFigures& probe : audit.probes) {
    if (out.table.rows.empty() && !probe.sentence.empty()) out.note += " " + probe.sentence;
    std::string name = class_name(audit.class_names, probe.label);
    if (!probe.layer.empty()) name += ", " + probe.layer;
    out.table.add_row({name, plus_minus(probe.seen, 1, 3, probe.seen_reason),
                       plus_minus(probe.unseen, 1, 3, probe.unseen_reason),
                       plus_minus(probe.recall_seen, 1, 3, probe.seen_reason),
                       plus_minus(probe.recall_unseen, 1, 3, probe.unseen_reason)});
  }
  return out;
}

}  // namespace

bool Comparison::measured() const {
  return std::ranges::any_of(methods, [](const AuditedMethod& method) {
    return std::ranges::any_of(method.audit.leaks.forgotten,
                               [](const ObserverLeak& leak) { return !leak.attacks.empty(); });
  });
}

std::string class_name(const std::vector<std::string>& names, std::size_t label) {
  return label < names.size() ? names[label] : fmt::format("class {}", label);
}

std::string plus_minus(const std::optional<MeanStd>& figure, double scale, int digits,
                       const std::string& reason) {
  if (!figure) return to_text(Figure::missing(reason));
  return fmt::format("{:.{}f} ± {:.{}f}", scale * figure->mean, digits, scale * figure->std,
                     digits);
}

std::vector<std::string> retained_names(const AuditResult& audit, std::size_t columns) {
  std::vector<std::string> out;
  for (std::size_t label = 0; out.size() < columns; ++label)
    if (!std::ranges::binary_search(audit.forgotten, label))
      out.push_back(class_name(audit.class_names, label));
  return out;
}

Comparison compare(std::vector<AuditedMethod> methods, const std::optional<AuditResult>& floor) {
  Comparison out;
  if (methods.empty()) return out;
  out.methods = std::move(methods);
  const AuditResult& first = out.methods.front().audit;
  for (const std::size_t label : first.forgotten)
    out.forgotten.push_back(class_name(first.class_names, label));
  if (floor)
    out.floor = floor->leaks;
  else
    out.floor = first.floor;
  if (!out.floor) out.no_floor = first.floor_reason;
  for (NamedTable& named : std::vector{class_table(out), quality_table(out.methods),
                                       flip_table(out.methods), probe_table(first)})
    if (!named.table.rows.empty()) out.tables.push_back(std::move(named));
  return out;
}

void add_audit(ReportData& data, AuditResult audit) {
  const std::string note = fmt::format("{} audited and {} retrained models, {} samples.",
                                       audit.models_seen, audit.models_unseen, audit.samples);
  std::vector<AuditedMethod> methods;
  methods.push_back({"audited models", std::move(audit)});
  Comparison comparison = compare(std::move(methods));
  comparison.title = "audit";
  comparison.warnings = comparison.methods.front().audit.warnings;
  comparison.note = note;
  if (!comparison.no_floor.empty())
    data.not_tested.push_back("The floor, retrained against retrained models: " +
                              comparison.no_floor);
  data.not_tested.emplace_back(
      "Observers who hold the file itself: they can look at weights and features.");
  if (data.title.empty()) data.title = "Audit: forgetting " + join(comparison.forgotten);
  data.comparisons.push_back(std::move(comparison));
}

}  // namespace oubli::report
