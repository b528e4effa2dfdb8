#include <fmt/format.h>

#include <algorithm>
#include <span>

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

// Calls use(name, title, figure, the floor's or null) for every figure of `leak`.
template <typename Use>
void for_each_figure(const ObserverLeak& leak, std::span<const ObserverLeak> floors,
                     const Use& use) {
  const ObserverLeak* floor = find(floors, leak.observer);
  for (const AttackLeak& attack : leak.attacks) {
    const std::string name = attack.answers == 1
                                 ? std::string(name_of(attack.attack))
                                 : fmt::format("{}-{}", name_of(attack.attack), attack.answers);
    const AttackLeak* at_floor = find(floor, attack.attack, attack.answers);
    for (const auto& [key, title, chart, figure] : kAttackFigures) {
      const bool is_advantage = figure == &AttackLeak::advantage;  // goes by the attack's name
      use(is_advantage ? name : fmt::format("{}_{}", name, key),
          is_advantage ? name + (&attack == leak.worst() ? " (worst)" : "")
                       : fmt::format("{}, {}", name, title),
          attack.*figure, at_floor != nullptr ? &(at_floor->*figure) : nullptr);
    }
    if (!attack.splits.empty()) use(name + "_splits", "", attack.over_splits, nullptr);
  }
  for (const auto& [key, title, chart, figure] : kObserverFigures)
    use(key, title, leak.*figure, floor != nullptr ? &(floor->*figure) : nullptr);
}

std::string short_cell(const Figure& figure) {
  return figure.value ? fmt::format("{:.3f}", *figure.value) : "n/a";
}

// The rows of one group of classes: observer, what, leak, floor; of attacks also AUC and the share
// of seen models found. All the rest is in JSON and CSV.
void add_leaks(TextTable& table, const std::string& group, std::span<const ObserverLeak> leaks,
               std::span<const ObserverLeak> floors) {
  for (const ObserverLeak& leak : leaks) {
    const std::string observer(name_of(leak.observer));
    const ObserverLeak* floor = find(floors, leak.observer);
    for (const AttackLeak& attack : leak.attacks) {
      const AttackLeak* at_floor = find(floor, attack.attack, attack.answers);
      table.add_row({group, observer, name_of(attack) + (&attack == leak.worst() ? " (worst)" : ""),
                     cell(attack.advantage),
                     at_floor != nullptr ? cell(at_floor->advantage) : "n/a",
                     short_cell(attack.area), short_cell(attack.found_1)});
    }
    for (const auto& [key, title, chart, figure] : kObserverFigures)
      table.add_row({group, observer, title, cell(leak.*figure),
                     floor != nullptr ? cell(floor->*figure) : "n/a", "", ""});
  }
}

// The verdict, and the largest figure beside it.
std::string verdict_text(const AuditResult& result) {
  std::string text = sentence(result.verdict) + '\n';
  if (!result.verdict.outcome) return text;
  text += fmt::format("Largest {}, over {} figures at once: {} (95 % for all of them together).\n",
                      result.verdict.with_floor ? "leak minus floor" : "leak (no floor was given)",
                      result.verdict.comparisons, cell(result.verdict.excess));
  if (const auto worst = result.worst())
    text += fmt::format("Worst single figure: class {}, {} on {}, advantage {}.\n",
                        class_label(worst->label, result.class_names), name_of(worst->attack),
                        name_of(worst->observer), cell(worst->attack.advantage));
  return text;
}

std::string forgetting_text(const AuditResult& result) {
  using enum TextTable::Align;
  TextTable table({{"class"}, {"figure"}, {"seen", right}, {"retrained", right}});
  for (const ForgettingFigures& figures : result.forgetting) {
    const std::string name = class_label(figures.label, result.class_names);
    table.add_row(
        {name, "forgetting quality (1 best)", cell(figures.quality), cell(figures.quality_floor)});
    table.add_row({name, "interpolated measure (1 = original)", cell(figures.interpolated),
                   cell(figures.interpolated_floor)});
    table.add_row({name, "recognised by the mean logit, AUC", cell(figures.ghost_seen),
                   cell(figures.ghost_unseen)});
    table.add_row({name, "recognised by a linear read-out, AUC", cell(figures.readout_seen),
                   cell(figures.readout_unseen)});
  }
  return table.text();
}

std::string probe_text(const AuditResult& result) {
  using enum TextTable::Align;
  TextTable table({{"class"},
                   {"layer"},
                   {"probe, AUC", right},
                   {"retrained", right},
                   {"recall", right},
                   {"retrained", right},
                   {"CKA to retrained", right},
                   {"among retrained", right},
                   {"to before", right}});
  std::string sentences;
  bool any = false;
  for (const ProbeFigures& probe : result.probes) {
    const std::string name = class_label(probe.label, result.class_names);
    if (!probe.sentence.empty())
      sentences += fmt::format("\nClass {}{}: {}\n", name,
                               probe.layer.empty() ? "" : ", layer " + probe.layer, probe.sentence);
    if (!probe.seen && !probe.unseen) continue;
    any = true;
    table.add_row({name, probe.layer.empty() ? "features" : probe.layer, cell(probe.seen),
                   cell(probe.unseen), cell(probe.recall_seen), cell(probe.recall_unseen),
                   cell(probe.cka), cell(probe.cka_floor), cell(probe.cka_before)});
  }
  return any ? '\n' + table.text() + sentences : sentences;
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
      for (const AttackLeak& attack : leak.attacks) {
        if (!attack.advantage.value)
          add(fmt::format("{}, {}", name_of(attack), of_whom), attack.advantage.reason);
        else if (!attack.advantage.low)
          add("intervals of advantages, " + of_whom, attack.advantage.reason);
      }
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
  for (const ForgettingFigures& figures : result.forgetting) {
    add_figure("forgetting quality", figures.quality);
    add_figure("forgetting quality, retrained", figures.quality_floor);
    add_figure("interpolated measure", figures.interpolated);
    add_figure("interpolated measure, retrained", figures.interpolated_floor);
  }
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

// The floor's figures of one class; none if there is no floor.
std::span<const ObserverLeak> floor_of(const AuditResult& result, std::size_t label) {
  if (!result.floor) return {};
  const ClassLeaks* of_class = find(result.floor->classes, label);
  return of_class != nullptr ? std::span(of_class->observers) : std::span<const ObserverLeak>();
}

std::string leaks_text(const AuditResult& result) {
  using enum TextTable::Align;
  TextTable leaks({{"classes"},
                   {"observer"},
                   {"figure"},
                   {"leak", right},
                   {"floor", right},
                   {"AUC", right},
                   {"found at 1 %", right}});
  const Leaks none;
  const Leaks& floor = result.floor ? *result.floor : none;
  add_leaks(leaks, result.forgotten.size() > 1 ? "forgotten (mean)" : "forgotten",
            result.leaks.forgotten, floor.forgotten);
  for (const ClassLeaks& of_class : result.leaks.classes) {
    if (!of_class.forgotten || result.forgotten.size() < 2) continue;
    leaks.add_rule();
    add_leaks(leaks, class_label(of_class.label, result.class_names), of_class.observers,
              floor_of(result, of_class.label));
  }
  if (!result.leaks.retained.empty()) {
    leaks.add_rule();
    add_leaks(leaks, "retained (mean)", result.leaks.retained, floor.retained);
  }
  return leaks.text();
}

// The attacks that were repeated in other splits; nothing if none were.
std::string splits_text(const AuditResult& result) {
  using enum TextTable::Align;
  TextTable table(
      {{"classes"}, {"observer"}, {"attack"}, {"first split", right}, {"mean of all", right}});
  std::size_t splits = 0;
  for (const auto& [group, leaks] : {std::pair("forgotten", &result.leaks.forgotten),
                                     std::pair("retained", &result.leaks.retained)})
    for (const ObserverLeak& leak : *leaks)
      for (const AttackLeak& attack : leak.attacks) {
        if (attack.splits.empty()) continue;
        splits = attack.splits.size();
        table.add_row({group, std::string(name_of(leak.observer)), name_of(attack),
                       cell(attack.advantage), cell(attack.over_splits)});
      }
  if (splits == 0) return {};
  return fmt::format(
      "\nAdvantages in {} splits of the models; intervals of the mean include the "
      "variation\nfrom the models that attacks learn from:\n{}",
      splits, table.text());
}

std::string quality_text(const AuditResult& result) {
  using enum TextTable::Align;
  TextTable quality({{"population"}, {"accuracy, retained", right}, {"loss, retained", right}});
  for (const QualityFigures& row : result.quality)
    quality.add_row({row.population, cell(row.accuracy), cell(row.loss)});
  return quality.text() +
         fmt::format("\nLabels flipped against naive deletion: all {}, forgotten {}, correct {}\n",
                     cell(result.flips.all), cell(result.flips.forgotten),
                     cell(result.flips.correct));
}

std::string destinations_text(const AuditResult& result) {
  using enum TextTable::Align;
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
  return "Where the forgotten class goes (share of its samples):\n" + goes.text();
}

}  // namespace

std::string to_text(const AuditResult& result) {
  std::vector<std::string> forgotten;
  for (const std::size_t label : result.forgotten)
    forgotten.push_back(class_label(label, result.class_names));
  std::string text = fmt::format(
      "Forgotten: {}. {} seen and {} unseen models, {} samples, {} classes.\n"
      "Attacks: advantage 2 (accuracy - 1/2) on models they have not seen, 0 none, 1 certain; in\n"
      "brackets 95 % intervals over the test models. KS: distance between the populations, in\n"
      "brackets the 95 % spread of this statistic over all models (jackknife). It is above 0 even\n"
      "between equal populations, which are finitely many models: compare it with the floor, not\n"
      "with 0. Floor: unseen models against other unseen ones. per-image: the attacker knows the\n"
      "picture; with 10 answers he asks one network about ten of them. AUC: of the attack's "
      "scores;\n"
      "found at 1 %: seen models found where one unseen answer in 100 is taken for theirs.\n\n",
      fmt::join(forgotten, ", "), result.models_seen, result.models_unseen, result.samples,
      result.classes);
  if (result.leaks_reason.empty())
    text += leaks_text(result) + splits_text(result) + '\n' + verdict_text(result);
  else
    text += fmt::format("Not given: {}.\n", result.leaks_reason);
  for (const std::string& warning : result.warnings) text += fmt::format("Warning: {}.\n", warning);
  text += '\n' + forgetting_text(result) + '\n' + quality_text(result) + '\n' +
          destinations_text(result) + probe_text(result);
  if (const std::string reasons = notes(result); !reasons.empty()) text += '\n' + reasons;
  return text;
}

std::string to_csv(const AuditResult& result) {
  std::string csv =
      "class,name,forgotten,observer,figure,value,low,high,floor,floor_low,floor_high,reason,"
      "floor_reason\n";
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.6f}", *value) : std::string();
  };
  const auto reason = [](const std::string& text) { return text.empty() ? text : quoted(text); };
  const Figure no_floor = Figure::missing(result.floor_reason);
  for (const ClassLeaks& of_class : result.leaks.classes) {
    const bool named = of_class.label < result.class_names.size();
    const std::string name = named ? quoted(result.class_names[of_class.label]) : "";
    for (const ObserverLeak& leak : of_class.observers)
      for_each_figure(leak, floor_of(result, of_class.label),
                      [&](const std::string& what, const std::string&, const Figure& value,
                          const Figure* of_floor) {
                        const Figure& other = of_floor != nullptr ? *of_floor : no_floor;
                        csv += fmt::format(
                            "{},{},{},{},{},{},{},{},{},{},{},{},{}\n", of_class.label, name,
                            of_class.forgotten ? 1 : 0, name_of(leak.observer), what,
                            number(value.value), number(value.low), number(value.high),
                            number(other.value), number(other.low), number(other.high),
                            reason(value.reason), reason(other.reason));
                      });
  }
  return csv;
}

}  // namespace oubli
