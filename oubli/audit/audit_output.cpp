#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "oubli/audit/audit.h"
#include "oubli/base/class_split.h"
#include "oubli/base/names.h"
#include "oubli/base/text_table.h"

namespace oubli {
namespace {

std::string cell(const Figure& figure) {
  if (!figure.value) return "n/a";
  if (!figure.low) return fmt::format("{:.3f}", *figure.value);
  return fmt::format("{:.3f} [{:.3f}, {:.3f}]", *figure.value, *figure.low, *figure.high);
}

std::string cell(const std::optional<MeanStd>& figure, double scale = 1) {
  if (!figure) return "n/a";
  return fmt::format("{:.4f} ± {:.4f}", figure->mean * scale, figure->std * scale);
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"') result.push_back('"');
    result.push_back(c);
  }
  result.push_back('"');
  return result;
}

const ObserverLeak* find(const std::vector<ObserverLeak>* leaks, Observer observer) {
  if (leaks == nullptr) return nullptr;
  for (const ObserverLeak& leak : *leaks)
    if (leak.observer == observer) return &leak;
  return nullptr;
}

// The rows of one group of classes: observer, attack, advantage, floor; then the KS figures.
void add_leaks(TextTable& table, const std::string& group, const std::vector<ObserverLeak>& leaks,
               const std::vector<ObserverLeak>* floors) {
  for (const ObserverLeak& leak : leaks) {
    const ObserverLeak* floor = find(floors, leak.observer);
    const auto add = [&](std::string what, const Figure& value, const Figure* of_floor) {
      table.add_row({group, std::string(name_of(leak.observer)), std::move(what), cell(value),
                     of_floor != nullptr ? cell(*of_floor) : "n/a"});
    };
    for (std::size_t a = 0; a < leak.attacks.size(); ++a)
      add(std::string(name_of(leak.attacks[a].attack)) + (a == leak.worst ? " (worst)" : ""),
          leak.attacks[a].advantage, floor != nullptr ? &floor->attacks[a].advantage : nullptr);
    add("KS, mean", leak.ks, floor != nullptr ? &floor->ks : nullptr);
    add("KS, largest", leak.ks_largest, floor != nullptr ? &floor->ks_largest : nullptr);
    add("KS, all-ones", leak.ks_ones, floor != nullptr ? &floor->ks_ones : nullptr);
  }
}

// What the gate looks at, and what it does not.
std::string worst_sentence(const AuditResult& result) {
  const auto worst = result.worst();
  if (!worst) return "Worst single figure: none, no attack was asked for.\n";
  return fmt::format(
      "Worst single figure: class {}, {} on {}, advantage {}.\n"
      "--fail-above compares this figure as it stands, the largest over forgotten classes, "
      "observers "
      "and\nattacks, with no allowance for chance: the floor shows what chance alone gives.\n",
      class_label(worst->label, result.class_names), name_of(worst->attack.attack),
      name_of(worst->observer), cell(worst->attack.advantage));
}

// Each reason for an "n/a" once.
std::string notes(const AuditResult& result) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& what, const std::string& reason) {
    std::string line = fmt::format("n/a, {}: {}", what, reason);
    if (!reason.empty() && std::ranges::find(lines, line) == lines.end())
      lines.push_back(std::move(line));
  };
  add("floor", result.floor_reason);
  const auto add_figure = [&](const std::string& what, const Figure& figure) {
    if (!figure.value) add(what, figure.reason);
  };
  const auto add_intervals = [&](const std::string& of_whom,
                                 const std::vector<ObserverLeak>& leaks) {
    for (const ObserverLeak& leak : leaks) {
      for (const AttackFigure& attack : leak.attacks)
        if (!attack.advantage.low)
          add("intervals of advantages, " + of_whom, attack.advantage.reason);
      for (const Figure* ks : {&leak.ks, &leak.ks_ones})
        if (ks->value && !ks->low) add("intervals of KS, " + of_whom, ks->reason);
      if (leak.ks_largest.value) add("intervals of KS, largest", leak.ks_largest.reason);
    }
  };
  for (const auto* leaks : {&result.leaks.forgotten, &result.leaks.retained}) {
    for (const ObserverLeak& leak : *leaks) {
      add_figure(fmt::format("KS for {}", name_of(leak.observer)), leak.ks);
      if (leak.ks.value)
        add_figure(fmt::format("KS, all-ones, for {}", name_of(leak.observer)), leak.ks_ones);
    }
    add_intervals("leak", *leaks);
  }
  if (result.floor) add_intervals("floor", result.floor->forgotten);
  for (const QualityFigures& quality : result.quality) add(quality.population, quality.reason);
  add("label flips", result.flips.reason);
  for (const ProbeFigures& probe : result.probes) {
    if (!probe.seen && !probe.unseen && probe.seen_reason == probe.unseen_reason) {
      add("probe on features", probe.seen_reason);
    } else {
      add("probe on features, seen", probe.seen_reason);
      add("probe on features, unseen", probe.unseen_reason);
    }
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

void to_json(nlohmann::json& json, const AuditResult& result) {
  const auto figure = [](const std::optional<MeanStd>& value) -> nlohmann::json {
    return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
  };
  json = {{"format", "oubli-audit"},
          {"version", 1},
          {"models", {{"seen", result.models_seen}, {"unseen", result.models_unseen}}},
          {"samples", result.samples},
          {"classes", result.classes},
          {"class_names", result.class_names},
          {"forgotten", result.forgotten},
          {"leaks", result.leaks}};
  auto& options = json["options"];
  options = {
      {"train_share", result.options.train_share},
      {"images_forgotten", result.options.images_forgotten},
      {"images_retained", result.options.images_retained},
      {"directions", result.options.directions},
      {"bootstrap", result.options.bootstrap},
      {"intervals",
       "95 %; advantages: bootstrap over the test models, attacks as fitted (Welch's with few "
       "of them); KS: jackknife over all models, the spread of a statistic that is above 0 even "
       "between equal populations: compare it with the floor, not with 0"},
      {"seed", result.options.seed}};
  if (result.floor)
    json["floor"] = *result.floor;
  else
    json["floor"] = {{"reason", result.floor_reason}};
  if (result.models_unseen2) json["models"]["unseen2"] = *result.models_unseen2;
  if (const auto worst = result.worst())
    json["worst"] = {{"class", worst->label},
                     {"observer", name_of(worst->observer)},
                     {"attack", name_of(worst->attack.attack)},
                     {"advantage", worst->attack.advantage}};
  else
    json["worst"] = nullptr;
  json["warnings"] = result.warnings;
  json["quality"] = nlohmann::json::array();
  for (const QualityFigures& quality : result.quality) {
    nlohmann::json row{{"population", quality.population},
                       {"accuracy", figure(quality.accuracy)},
                       {"loss", figure(quality.loss)}};
    if (!quality.reason.empty()) row["reason"] = quality.reason;
    json["quality"].push_back(std::move(row));
  }
  json["flips"] = {{"all", figure(result.flips.all)},
                   {"forgotten", figure(result.flips.forgotten)},
                   {"correct", figure(result.flips.correct)}};
  if (!result.flips.reason.empty()) json["flips"]["reason"] = result.flips.reason;
  json["misclassification"] = nlohmann::json::array();
  for (const Misclassification& bars : result.misclassification)
    json["misclassification"].push_back(
        {{"class", bars.label}, {"population", bars.population}, {"shares", bars.shares}});
  json["probes"] = nlohmann::json::array();
  for (const ProbeFigures& probe : result.probes) {
    nlohmann::json row{{"class", probe.label},
                       {"seen", figure(probe.seen)},
                       {"unseen", figure(probe.unseen)},
                       {"seen_models", probe.seen_models},
                       {"unseen_models", probe.unseen_models},
                       {"sentence", probe.sentence}};
    // "reason" is what there was before each had its own.
    const std::string& reason = !probe.seen ? probe.seen_reason : probe.unseen_reason;
    if (!reason.empty()) row["reason"] = reason;
    if (!probe.seen_reason.empty()) row["seen_reason"] = probe.seen_reason;
    if (!probe.unseen_reason.empty()) row["unseen_reason"] = probe.unseen_reason;
    json["probes"].push_back(std::move(row));
  }
}

std::string to_text(const AuditResult& result) {
  using enum TextTable::Align;
  TextTable leaks({{"classes"}, {"observer"}, {"figure"}, {"leak", right}, {"floor", right}});
  add_leaks(leaks, result.forgotten.size() > 1 ? "forgotten (mean)" : "forgotten",
            result.leaks.forgotten, result.floor ? &result.floor->forgotten : nullptr);
  for (std::size_t c = 0; c < result.leaks.classes.size() && result.forgotten.size() > 1; ++c) {
    const ClassLeaks& of_class = result.leaks.classes[c];
    if (!of_class.forgotten) continue;
    leaks.add_rule();
    add_leaks(leaks, class_label(of_class.label, result.class_names), of_class.observers,
              result.floor ? &result.floor->classes[c].observers : nullptr);
  }
  if (!result.leaks.retained.empty()) {
    leaks.add_rule();
    add_leaks(leaks, "retained (mean)", result.leaks.retained,
              result.floor ? &result.floor->retained : nullptr);
  }

  std::vector<std::string> forgotten;
  for (const std::size_t label : result.forgotten)
    forgotten.push_back(class_label(label, result.class_names));
  std::string text = fmt::format(
      "Forgotten: {}. {} seen and {} unseen models, {} samples, {} classes.\n"
      "Attacks: advantage 2 (accuracy - 1/2) on models they have not seen, 0 none, 1 certain; in\n"
      "brackets 95 % intervals over the test models. KS: distance between the populations, in\n"
      "brackets the 95 % spread of this statistic over all models (jackknife). It is above 0 even\n"
      "between equal populations, which are finitely many models: compare it with the floor, not\n"
      "with 0. Floor: unseen models against other unseen ones.\n\n",
      fmt::join(forgotten, ", "), result.models_seen, result.models_unseen, result.samples,
      result.classes);
  text += leaks.text();
  text += '\n';
  text += worst_sentence(result);
  for (const std::string& warning : result.warnings) text += fmt::format("Warning: {}.\n", warning);

  TextTable quality({{"population"}, {"accuracy, retained", right}, {"loss, retained", right}});
  for (const QualityFigures& row : result.quality)
    quality.add_row({row.population, cell(row.accuracy), cell(row.loss)});
  text += '\n';
  text += quality.text();
  text +=
      fmt::format("\nLabels flipped against naive deletion: all {}, forgotten {}, correct {}\n",
                  cell(result.flips.all), cell(result.flips.forgotten), cell(result.flips.correct));

  const std::vector<std::size_t> retained =
      split_classes(result.classes, result.forgotten).retained;
  TextTable goes({{"samples of"}, {"labelled"}, {"seen", right}, {"unseen", right}});
  for (const Misclassification& bars : result.misclassification) {
    if (bars.population != "seen") continue;
    for (const Misclassification& others : result.misclassification)
      if (others.label == bars.label && others.population == "unseen")
        for (std::size_t j = 0; j < bars.shares.size(); ++j)
          goes.add_row({class_label(bars.label, result.class_names),
                        class_label(retained[j], result.class_names), cell(bars.shares[j]),
                        cell(others.shares[j])});
  }
  text += "\nWhere the forgotten class goes (share of its samples):\n";
  text += goes.text();
  for (const ProbeFigures& probe : result.probes)
    if (!probe.sentence.empty())
      text += fmt::format("\nClass {}: {}\n", class_label(probe.label, result.class_names),
                          probe.sentence);
  if (const std::string reasons = notes(result); !reasons.empty()) {
    text += '\n';
    text += reasons;
  }
  return text;
}

std::string to_csv(const AuditResult& result) {
  std::string csv =
      "class,name,forgotten,observer,figure,value,low,high,floor,floor_low,floor_high,reason,"
      "floor_reason\n";
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.6f}", *value) : std::string();
  };
  for (std::size_t c = 0; c < result.leaks.classes.size(); ++c) {
    const ClassLeaks& of_class = result.leaks.classes[c];
    for (std::size_t o = 0; o < of_class.observers.size(); ++o) {
      const ObserverLeak& leak = of_class.observers[o];
      const ObserverLeak* floor =
          result.floor ? find(&result.floor->classes[c].observers, leak.observer) : nullptr;
      const auto add = [&](std::string_view what, const Figure& value, const Figure* of_floor) {
        const Figure missing = Figure::missing(result.floor_reason);
        const Figure& other = of_floor != nullptr ? *of_floor : missing;
        csv += fmt::format(
            "{},{},{},{},{},{},{},{},{},{},{},{},{}\n", of_class.label,
            of_class.label < result.class_names.size() ? quoted(result.class_names[of_class.label])
                                                       : "",
            of_class.forgotten ? 1 : 0, name_of(leak.observer), what, number(value.value),
            number(value.low), number(value.high), number(other.value), number(other.low),
            number(other.high), value.reason.empty() ? "" : quoted(value.reason),
            other.reason.empty() ? "" : quoted(other.reason));
      };
      for (std::size_t a = 0; a < leak.attacks.size(); ++a)
        add(name_of(leak.attacks[a].attack), leak.attacks[a].advantage,
            floor != nullptr ? &floor->attacks[a].advantage : nullptr);
      add("ks", leak.ks, floor != nullptr ? &floor->ks : nullptr);
      add("ks_largest", leak.ks_largest, floor != nullptr ? &floor->ks_largest : nullptr);
      add("ks_ones", leak.ks_ones, floor != nullptr ? &floor->ks_ones : nullptr);
    }
  }
  return csv;
}

}  // namespace oubli
