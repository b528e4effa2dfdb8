#include "oubli/cli/audit_summary.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "oubli/base/names.h"
#include "oubli/cli/terminal.h"

namespace oubli::cli {
namespace {

// Advantage -1..1 as right answers in 100.
std::string in_hundred(double advantage) { return fmt::format("{:.0f}", 50 * (1 + advantage)); }

std::string in_hundred(const Figure& advantage) {
  if (!advantage.value) return "-";
  std::string text = in_hundred(*advantage.value);
  if (advantage.low)
    text += fmt::format(" ({} to {})", in_hundred(*advantage.low), in_hundred(*advantage.high));
  return text;
}

std::string classes_of(std::span<const std::size_t> labels, std::span<const std::string> names) {
  std::vector<std::string> words;
  for (const std::size_t label : labels) words.push_back(class_label(label, names));
  return fmt::format("{} {}", words.size() == 1 ? "class" : "classes", fmt::join(words, ", "));
}

// The first sentence: what is found for who sees most. Then how that depends on the answers.
std::string verdict_lines(const Verdict& verdict) {
  const std::string text = sentence(verdict);
  if (!verdict.outcome) return told(text);
  std::string name(name_of(*verdict.outcome));
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  const Look look = *verdict.outcome == Outcome::told_apart       ? Look::bad
                    : *verdict.outcome == Outcome::not_told_apart ? Look::good
                                                                  : Look::bold;
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    out += out.empty() ? labelled(name + ".", look, part) : told(part);
    begin = end + 1;
  }
  return out;
}

std::string accuracy_of(const AuditResult& audit, std::string_view population) {
  const auto found = std::ranges::find(audit.quality, population, &QualityFigures::population);
  if (found == audit.quality.end() || !found->accuracy) return "-";
  return fmt::format("{:.1f} %", 100 * found->accuracy->mean);
}

std::string observers_table(const AuditResult& result) {
  using enum TextTable::Align;
  TextTable table({{"  who sees"}, {"right in 100", right}, {"retrained ones", right}, {"by"}});
  for (const ObserverLeak& leak : result.leaks.forgotten) {
    const AttackLeak* const worst = leak.worst();
    const ObserverLeak* const floors =
        result.floor ? find(result.floor->forgotten, leak.observer) : nullptr;
    const AttackLeak* const floor =
        worst != nullptr ? find(floors, worst->attack, worst->answers) : nullptr;
    table.add_row({"  " + seen(leak.observer),
                   worst != nullptr ? in_hundred(worst->advantage) : "-",
                   floor != nullptr ? in_hundred(floor->advantage) : "-",
                   worst != nullptr ? name_of(*worst) : "no attack could be computed"});
  }
  return small_text(table);
}

// The largest advantage that an observer gets on the forgotten classes.
std::string worst_of(const Leaks& leaks, Observer observer) {
  const ObserverLeak* const leak = find(leaks.forgotten, observer);
  const AttackLeak* const worst = leak != nullptr ? leak->worst() : nullptr;
  return worst != nullptr ? in_hundred(*worst->advantage.value) : "-";
}

// Of the same method with other samples for its means, only the one with most is shown.
bool is_main(const TreatmentResult& result) {
  return !result.means ||
         (result.means->source == MeansSource::test && to_text(result.means->samples) == "all");
}

// Over all attacks and observers at once, against the part's floor.
Verdict verdict_of(const PartResult& part, const AuditResult& audit) {
  return judge(audit.leaks, part.floor ? &part.floor->leaks : nullptr, 0);
}

std::string methods_table(const PartResult& part) {
  using enum TextTable::Align;
  TextTable table({{"  method"}});
  for (const Observer observer : all_values<Observer>())
    table.columns.push_back({std::string(name_of(observer)), right});
  table.columns.push_back({"accuracy", right});
  table.columns.push_back({"verdict"});
  const auto add = [&](const std::string& name, const AuditResult& audit,
                       std::string_view population, const std::string& verdict) {
    std::vector<std::string> cells{"  " + name};
    for (const Observer observer : all_values<Observer>())
      cells.push_back(worst_of(audit.leaks, observer));
    cells.push_back(accuracy_of(audit, population));
    cells.push_back(verdict);
    table.add_row(std::move(cells));
  };
  for (const TreatmentResult& result : part.treatments) {
    if (!result.audit || !is_main(result)) continue;
    const Verdict verdict = verdict_of(part, *result.audit);
    add(name_of(result.treatment), *result.audit, "seen",
        verdict.outcome ? std::string(name_of(*verdict.outcome)) : "none");
  }
  if (part.floor) add("(retrained)", *part.floor, "unseen", "");
  return small_text(table);
}

std::string part_summary(const Results& results, const PartResult& part) {
  std::string text =
      labelled(results.experiment + ":", Look::bold,
               fmt::format("{} forgotten; {} networks that saw it and {} that never did, {} "
                           "features.",
                           classes_of(part.forgotten, results.class_names), part.seen, part.unseen,
                           part.hidden));
  for (const TreatmentResult& result : part.treatments)
    if (name_of(result.treatment) == "normalization" && is_main(result) && result.audit)
      text += told("Normalization, told from networks retrained without the class:") +
              verdict_lines(verdict_of(part, *result.audit));
  return text + told("Right answers in 100 of the strongest attack on who sees (guessing: 50):") +
         methods_table(part);
}

}  // namespace

std::string seen(Observer observer) {
  return std::string(observer == Observer::label ? "the top label" : name_of(observer));
}

std::string summary_of(const AuditResult& result) {
  std::string text;
  if (result.leaks_reason.empty())
    text = verdict_lines(result.verdict);
  else
    text = labelled("No verdict:", Look::bold, result.leaks_reason + ".");
  text +=
      told(fmt::format("Forgotten: {}; {} models that saw it and {} that never did, {} samples.",
                       classes_of(result.forgotten, result.class_names), result.models_seen,
                       result.models_unseen, result.samples));
  if (!result.leaks.forgotten.empty()) text += observers_table(result);
  text += told(fmt::format("Accuracy on the classes kept: {}, retrained {}.",
                           accuracy_of(result, "seen"), accuracy_of(result, "unseen")));
  for (const std::string& warning : result.warnings) remark("warning: " + warning);
  if (!result.floor && !result.floor_reason.empty())
    remark("note: no floor of retrained models: " + result.floor_reason);
  return text + told("More: --full; all figures: --json, --csv FILE.");
}

std::string summary_of(const Results& results) {
  std::string text;
  for (const PartResult& part : results.parts) text += part_summary(results, part);
  return text;
}

std::string legend_of_tables() {
  return "p: features of a network, what its last layer reads. s: samples per class that the "
         "class\n"
         "means are made of. NN, RF, AB, LR: advantage (0 guessing, 1 certain) of attacks by "
         "nearest\n"
         "neighbours, random forest, AdaBoost, logistic regression. KS: Kolmogorov-Smirnov "
         "distance.\n"
         "inputs: of the class unlearned, or of those remaining. Rows that stand in a table above\n"
         "are left out.\n\n";
}

}  // namespace oubli::cli
