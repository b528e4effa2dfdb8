#include "oubli/report/audit_data.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "oubli/base/error.h"
#include "oubli/report/json_fields.h"
#include "oubli/report/read_report.h"
#include "oubli/report/verdict.h"

namespace oubli::report {
namespace {

using nlohmann::json;

// The entry of `entries` for an observer; null if there is none.
const json* of_observer(const json& entries, const std::string& observer) {
  for (const json& entry : entries)
    if (text(entry, "observer") == observer) return &entry;
  return nullptr;
}

// A figure that is not there, for a reason.
Measured none(const std::string& reason) { return {{}, {}, {}, reason}; }

Measured advantage(const json* leak, const std::string& attack, const std::string& otherwise = "") {
  if (leak != nullptr)
    for (const json& entry : list(*leak, "attacks"))
      if (text(entry, "attack") == attack) return figure(entry, "advantage");
  return none(otherwise);
}

// The names in files are those of name_of(Attack); sentences and charts want words.
std::string attack_title(const std::string& name) {
  static const std::map<std::string, std::string> titles{
      {"nearest-neighbours", "5 nearest neighbours"},
      {"forest", "random forest (10 trees)"},
      {"adaboost", "AdaBoost"},
      {"logistic", "logistic regression"},
      {"strong-forest", "random forest (100 deep trees)"}};
  const auto found = titles.find(name);
  return found == titles.end() ? name : found->second;
}

const json* leaks_of(const json* audit, const char* group) {
  if (audit == nullptr) return nullptr;
  const json* leaks = find(*audit, "leaks");
  return leaks == nullptr ? nullptr : find(*leaks, group);
}

// The floor's figures for `group`: those of the floor's own audit, or those inside `audit`.
const json* floor_of(const json& audit, const json* floor, const char* group) {
  if (floor != nullptr) return leaks_of(floor, group);
  const json* own = find(audit, "floor");
  return own == nullptr ? nullptr : find(*own, group);
}

// Why there is no floor; empty if there is one.
std::string why_no_floor(const json& audit, const json* floor) {
  if (floor != nullptr) return "";
  const json* own = find(audit, "floor");
  return own == nullptr ? "" : text(*own, "reason");
}

void add_leaks(Audit& out, const std::string& method, const json& audit, const json* floor) {
  const json* forgotten = leaks_of(&audit, "forgotten");
  if (forgotten == nullptr) return;
  const json* retained = leaks_of(&audit, "retained");
  const json* floor_forgotten = floor_of(audit, floor, "forgotten");
  const json* floor_retained = floor_of(audit, floor, "retained");
  const std::string no_floor = why_no_floor(audit, floor);
  for (const json& leak : *forgotten) {
    const std::string observer = text(leak, "observer");
    const auto same = [&](const json* entries) {
      return entries == nullptr ? nullptr : of_observer(*entries, observer);
    };
    for (const json& entry : list(leak, "attacks")) {
      const std::string attack = text(entry, "attack");
      out.leaks.push_back({.method = method,
                           .observer = observer,
                           .attack = attack_title(attack),
                           .forgotten = figure(entry, "advantage"),
                           .forgotten_floor = advantage(same(floor_forgotten), attack, no_floor),
                           .retained = advantage(same(retained), attack),
                           .retained_floor = advantage(same(floor_retained), attack, no_floor)});
    }
    const auto add_ks = [&](const json* entry, const json* at_floor, bool is_forgotten) {
      if (entry == nullptr) return;
      const auto of_floor = [&](const char* key) {
        return at_floor == nullptr ? none(no_floor) : figure(*at_floor, key);
      };
      KsDistance ks{.method = method,
                    .observer = observer,
                    .random = figure(*entry, "ks"),
                    .ones = figure(*entry, "ks_ones"),
                    .random_floor = of_floor("ks"),
                    .ones_floor = of_floor("ks_ones"),
                    .forgotten = is_forgotten};
      if (find(*entry, "ks") != nullptr) out.ks.push_back(std::move(ks));
    };
    add_ks(&leak, same(floor_forgotten), true);
    add_ks(same(retained), same(floor_retained), false);
  }
}

void add_destinations(Audit& out, const std::string& method, const json& audit,
                      bool with_retrained) {
  std::set<std::size_t> forgotten;
  for (const json& label : list(audit, "forgotten")) forgotten.insert(whole_number(label));
  for (const json& entry : list(audit, "misclassification")) {
    const std::string population = text(entry, "population");
    if (population != "seen" && !(with_retrained && population == "unseen")) continue;
    Destinations d;
    d.method = population == "seen" ? method : "retrained";
    d.forgotten_class = class_name(audit, whole_number(entry.at("class")));
    for (std::size_t label = 0; d.shares.size() < entry.at("shares").size(); ++label) {
      if (forgotten.contains(label)) continue;
      d.classes.push_back(class_name(audit, label));
      d.shares.push_back(mean_std(entry.at("shares")[d.shares.size()]));
    }
    out.destinations.push_back(std::move(d));
  }
}

NamedTable quality_table(const std::vector<AuditedMethod>& methods) {
  NamedTable out{"Accuracy and loss on retained classes", "Mean ± standard deviation over models.",
                 Table{{{"models"},
                        {"accuracy %, from the top-1 label", true},
                        {"loss, from the probabilities", true}},
                       {}}};
  const auto add = [&](const json& audit, const char* population, const std::string& name) {
    for (const json& entry : list(audit, "quality")) {
      if (text(entry, "population") != population) continue;
      const std::string reason = text(entry, "reason");
      out.table.rows.push_back({name, plus_minus(entry, "accuracy", 100, 2, reason),
                                plus_minus(entry, "loss", 1, 3, reason)});
    }
  };
  if (methods.empty()) return out;
  add(*methods.front().second, "before", "before unlearning");
  add(*methods.front().second, "unseen", "retrained");
  for (const auto& [name, audit] : methods) add(*audit, "seen", name);
  return out;
}

NamedTable flip_table(const std::vector<AuditedMethod>& methods) {
  NamedTable out{"Top-1 labels changed against naive deletion, in percent",
                 "Normalization changes none: it moves all logits of an input by the same amount.",
                 Table{{{"method"},
                        {"all inputs", true},
                        {"forgotten class", true},
                        {"retained, correctly predicted", true}},
                       {}}};
  for (const auto& [name, audit] : methods) {
    const json* flips = find(*audit, "flips");
    if (flips == nullptr) continue;
    const std::string reason = text(*flips, "reason");
    bool missing = false;
    std::vector<std::string> cells{name};
    for (const char* key : {"all", "forgotten", "correct"}) {
      missing = missing || find(*flips, key) == nullptr;
      cells.push_back(plus_minus(*flips, key, 100, 2, reason));
    }
    out.table.rows.push_back(std::move(cells));
    if (!missing && !reason.empty()) out.reasons.push_back(fmt::format("{}: {}.", name, reason));
  }
  return out;
}

// Per class and observer, the strongest attack's advantage under each method.
NamedTable class_table(const std::vector<AuditedMethod>& methods, const json* floor) {
  NamedTable out{"Strongest attack, class by class",
                 "Advantage with its 95 % interval: 0 is guessing, 1 is certain.",
                 Table{{{"class"}, {"observer"}}, {}}};
  for (const auto& [name, audit] : methods) out.table.columns.push_back({name, true});
  const json* floor_classes = nullptr;
  if (!methods.empty()) floor_classes = floor_of(*methods.front().second, floor, "classes");
  if (floor_classes != nullptr) out.table.columns.push_back({"floor", true});
  if (methods.empty()) return out;
  const json* classes = leaks_of(methods.front().second, "classes");
  if (classes == nullptr) return out;

  Reasons why;
  // `what` names the figure where a reason is given.
  const auto strongest = [&why](const json* entries, std::size_t label, const std::string& observer,
                                const std::string& what) {
    Measured best;
    if (entries == nullptr) return best;
    for (const json& entry : *entries) {
      if (whole_number(entry.at("class")) != label) continue;
      const json* leak = of_observer(list(entry, "observers"), observer);
      if (leak == nullptr) continue;
      for (const json& attack : list(*leak, "attacks")) {
        Measured m = figure(attack, "advantage");
        if (!m.value) why.add(what + ", " + attack_title(text(attack, "attack")), m);
        if (m.value ? !best.value || *m.value > *best.value : !best.value && best.reason.empty())
          best = std::move(m);
      }
    }
    if (best.value) why.add(what, best);
    return best;
  };
  for (const json& entry : *classes) {
    const auto label = whole_number(entry.at("class"));
    for (const json& leak : list(entry, "observers")) {
      const std::string observer = text(leak, "observer");
      std::string name = class_name(*methods.front().second, label);
      if (entry.value("forgotten", false)) name += " (forgotten)";
      const std::string seen = observer == "label" ? "top-1 label" : observer;
      const std::string what = fmt::format("{}, {}", name, seen);
      std::vector<std::string> cells{std::move(name), seen};
      for (const auto& [method, audit] : methods)
        cells.push_back(to_text(strongest(leaks_of(audit, "classes"), label, observer,
                                          fmt::format("{}, {}", what, method))));
      if (floor_classes != nullptr)
        cells.push_back(to_text(strongest(floor_classes, label, observer, what + ", floor")));
      out.table.rows.push_back(std::move(cells));
    }
  }
  out.reasons = why.lines();
  return out;
}

NamedTable probe_table(const std::vector<AuditedMethod>& methods) {
  NamedTable out{
      "Linear probe on the features", "For an observer who holds the file, and so the features.",
      Table{{{"class"}, {"models that saw it: AUC", true}, {"retrained: AUC", true}}, {}}};
  if (methods.empty()) return out;
  const json& audit = *methods.front().second;  // features are the same for every method
  for (const json& probe : list(audit, "probes")) {
    if (const std::string sentence = text(probe, "sentence"); out.table.rows.empty())
      out.note += (sentence.empty() ? "" : " ") + sentence;
    const auto cell = [&](const char* key, const char* why) {
      const std::string reason = text(probe, why);
      return plus_minus(probe, key, 1, 3, reason.empty() ? text(probe, "reason") : reason);
    };
    out.table.rows.push_back({class_name(audit, whole_number(probe.at("class"))),
                              cell("seen", "seen_reason"), cell("unseen", "unseen_reason")});
  }
  return out;
}

}  // namespace

std::string class_name(const json& document, std::size_t label) {
  const json& names = list(document, "class_names");
  if (label < names.size()) return names[label].get<std::string>();
  return fmt::format("class {}", label);
}

std::vector<std::string> warnings_of(const json& audit) {
  std::vector<std::string> out;
  for (const json& warning : list(audit, "warnings")) out.push_back(warning.get<std::string>());
  return out;
}

Audit audit_data(const std::vector<AuditedMethod>& methods, const json* floor) {
  Audit out;
  bool first = true;
  for (const auto& [name, audit] : methods) {
    if (first)
      for (const json& label : list(*audit, "forgotten"))
        out.forgotten.push_back(class_name(*audit, whole_number(label)));
    add_leaks(out, name, *audit, floor);
    add_destinations(out, name, *audit, first);
    first = false;
  }
  for (NamedTable& named : std::vector{class_table(methods, floor), quality_table(methods),
                                       flip_table(methods), probe_table(methods)})
    if (!named.table.rows.empty()) out.tables.push_back(std::move(named));
  return out;
}

void add_audit(ReportData& data, const json& document) {
  Audit audit = audit_data({{"audited models", &document}}, nullptr);
  audit.title = "audit";
  audit.warnings = warnings_of(document);
  const json models = document.value("models", json::object());
  audit.note = fmt::format("{} audited and {} retrained models, {} samples.", count(models, "seen"),
                           count(models, "unseen"), count(document, "samples"));
  if (const json* floor = find(document, "floor"); floor != nullptr)
    if (const std::string reason = text(*floor, "reason"); !reason.empty())
      data.not_tested.push_back("The floor, retrained against retrained models: " + reason);
  data.not_tested.emplace_back(
      "Observers who hold the file itself: they can look at weights and features.");
  if (data.title.empty()) data.title = "Audit: forgetting " + join(audit.forgotten);
  data.audits.push_back(std::move(audit));
}

}  // namespace oubli::report
