#include "oubli/cli/forget_summary.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "oubli/base/names.h"
#include "oubli/base/text_table.h"
#include "oubli/cli/audit_summary.h"
#include "oubli/cli/terminal.h"
#include "oubli/forget/receipt.h"

namespace oubli::cli {
namespace {

// "a", "a and b", "a, b and c".
std::string and_list(const std::vector<std::string>& words) {
  if (words.size() < 2) return words.empty() ? "" : words.front();
  const std::span first(words.begin(), words.size() - 1);
  return fmt::format("{} and {}", fmt::join(first, ", "), words.back());
}

std::string two_digits(const std::optional<double>& auc) {
  return auc ? fmt::format("{:.2f}", *auc) : "-";
}

std::string accuracy(const ForgetInputs& inputs, const ForgetOutcome& outcome) {
  if (const auto& check = outcome.run_check.check; check && check->kept_accuracy_before)
    return told(fmt::format(
        "Accuracy on the classes kept: {:.1f} % before, {:.1f} % after, on {} inputs.",
        100 * *check->kept_accuracy_before, 100 * *check->kept_accuracy_after, check->samples));
  if (inputs.run != nullptr)
    return told(fmt::format("Accuracy now: {:.1f} %.", 100 * inputs.run->report().accuracy));
  if (outcome.leaks && outcome.leaks->kept_samples > 0 && outcome.leaks->label_flips == 0)
    return told(fmt::format("Accuracy on the classes kept: {:.1f} % after.",
                            100.0 * static_cast<double>(outcome.leaks->kept_right) /
                                static_cast<double>(outcome.leaks->kept_samples)));
  return "";
}

// Labels that are others than after cutting the class off: the method's price, and its point.
std::string label_changes(const LeakCheck& leaks) {
  if (leaks.label_flips == 0 || leaks.kept_samples == 0) return "";
  const auto percent = [&](std::size_t right) {
    return 100.0 * static_cast<double>(right) / static_cast<double>(leaks.kept_samples);
  };
  return told(
      fmt::format("Top labels changed, against cutting off: {} of {} forgotten, {} of {} kept "
                  "inputs (right: {:.1f} %, cut off {:.1f} %).",
                  leaks.label_flips - leaks.kept_flips, leaks.label_samples - leaks.kept_samples,
                  leaks.kept_flips, leaks.kept_samples, percent(leaks.kept_right_now),
                  percent(leaks.kept_right)));
}

// What users of the model see, if it is known that they see no logits.
std::optional<Observer> shown_by(const ForgetOutcome& outcome) {
  if (!outcome.run_check.check || !outcome.run_check.check->outputs_not_compared.empty())
    return std::nullopt;
  std::optional<Observer> most;
  for (const auto& [name, function] : outcome.run_check.check->outputs) {
    const bool softmax =
        function == "softmax of the logits" || function == "log-softmax of the logits";
    if (!softmax && function != "the class of the largest logit") return std::nullopt;
    const Observer sees = softmax ? Observer::probabilities : Observer::label;
    most = most ? std::min(*most, sees) : sees;
  }
  return most;
}

// What to make of it, where the method does not do what it is for. Judged by who uses the model: by
// what its file puts out, where that is known.
std::string verdict(const std::vector<ObserverWords>& observers, const ForgetRequest& request,
                    const ForgetOutcome& outcome) {
  const auto users = shown_by(outcome);
  if (users) {
    const auto found = std::ranges::find(observers, *users, &ObserverWords::observer);
    const std::string see = fmt::format("Users of this model see {} only", seen(*users));
    if (found != observers.end() && !found->worse() && !found->helped() && found->naive)
      return told(fmt::format("{}: for them {} is merely cutting the output off.", see,
                              name_of(request.method)));
    if (found == observers.end() || !found->worse()) return told(see + ".");
  }
  const auto worse = std::ranges::find_if(observers, [&](const ObserverWords& words) {
    return words.worse() && (!users || words.observer >= *users);
  });
  if (worse == observers.end()) return "";
  return labelled("This method did not help here:", Look::bad,
                  fmt::format("--method naive shows less to who sees {}.", seen(worse->observer)));
}

}  // namespace

std::string ObserverWords::text() const {
  if (!now) return "not known (--full says why)";
  const std::string_view often = how_often(*now);
  if (!naive) return std::string(often);
  return fmt::format("{}; {} if merely cut off", often,
                     worse()    ? "MORE than"
                     : helped() ? "less than"
                                : "as");
}

std::vector<ObserverWords> observers_in_words(const LeakCheck& leaks) {
  std::vector<ObserverWords> out;
  for (const Observer observer : all_values<Observer>()) {
    ObserverWords words{observer, {}, {}};
    bool any = false;
    for (const LeakRow& row : leaks.rows) {
      any = any || row.observer == observer;
      // Who sees logits can work out probabilities, and who sees these the label.
      if (row.observer < observer) continue;
      for (const auto& value : {row.ghost, row.readout})
        if (value) words.now = std::max(words.now.value_or(0.5), *value);
      for (const auto& value : {row.ghost_naive, row.readout_naive})
        if (value) words.naive = std::max(words.naive.value_or(0.5), *value);
    }
    if (any) out.push_back(words);
  }
  return out;
}

std::string model_in_words(const ModelFile& model, std::span<const std::string> class_names) {
  constexpr std::size_t kMost = 20;
  std::string text = labelled(
      model.path().string() + ":", Look::bold,
      fmt::format("a classifier of {} classes by {} features ({}, {}).", model.head().classes(),
                  model.head().features(), model.format(), model.head_name()));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(class_names.size(), kMost); ++i)
    names.push_back(fmt::format("{} {}", i, class_names[i]));
  if (class_names.size() > kMost)
    names.push_back(fmt::format("and {} more (--json)", class_names.size() - kMost));
  if (!names.empty()) text += told(fmt::format("Classes: {}.", fmt::join(names, ", ")), 2);
  for (const Finding& finding : model.findings())
    text += told(
        fmt::format("Note: {}{}{}", finding.where, finding.where.empty() ? "" : " ", finding.text),
        2);
  return text;
}

std::string classes_in_words(const ForgetRequest& request) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> words;
  for (const std::size_t c : request.forget)
    if (words.size() < kMost) words.push_back(class_label(c, request.class_names));
  if (request.forget.size() > kMost)
    words.push_back(fmt::format("{} more", request.forget.size() - kMost));
  return (request.forget.size() == 1 ? "class " : "classes ") + and_list(words);
}

std::string headline(const ForgetInputs& inputs, const ForgetRequest& request,
                     const ForgetPlan& plan, const std::string& output) {
  const std::string label =
      fmt::format("{} {}:", output.empty() ? "Would forget" : "Forgot", classes_in_words(request));
  const std::string text = fmt::format(
      "{} ({} classes) -> {}{} left.", inputs.model->path().string(), plan.split().classes,
      output.empty() ? "" : output + ", ", plan.split().retained.size());
  std::string how = fmt::format("By {}{}", name_of(plan.filtration.method),
                                request.method == Method::naive ? " deletion" : "");
  if (inputs.run != nullptr)
    how += fmt::format(", from {} {} of {}",
                       inputs.run->report().positions.empty() ? inputs.run->report().samples
                                                              : inputs.data->samples(),
                       inputs.run->report().positions.empty() ? "samples" : "positions",
                       inputs.run->report().data);
  else if (inputs.means)
    how += ", from a means file";
  else if (inputs.data)
    how += fmt::format(", from {} samples", inputs.data->samples());
  return labelled(label, Look::bold, text) + told(how + ".");
}

std::string findings_in_words(const ForgetInputs& inputs, const ForgetRequest& request,
                              const ForgetOutcome& outcome) {
  std::string text = accuracy(inputs, outcome);
  if (!outcome.leaks || outcome.leaks->rows.empty())
    return text +
           told(inputs.data
                    ? "What an observer can still tell could not be checked (--full says why)."
                    : "What an observer can still tell was not checked: no data was "
                      "given.");
  std::vector<ObserverWords> observers = observers_in_words(*outcome.leaks);
  const bool naive = request.method == Method::naive;  // nothing to compare it with
  if (naive)
    for (ObserverWords& words : observers) words.naive.reset();
  text += told("Are inputs of the forgotten class told from others? (AUC: 0.5 no, 1 always)");
  using enum TextTable::Align;
  TextTable table({{"  who sees", left}});
  if (!naive) table.columns.push_back({"cut off", right});
  table.columns.push_back({"now", right});
  table.columns.push_back({"that is", left});
  for (const ObserverWords& of : observers) {
    std::vector<std::string> cells{fmt::format("  {}", seen(of.observer))};
    if (!naive) cells.push_back(two_digits(of.naive));
    cells.push_back(two_digits(of.now));
    cells.push_back(of.text());
    table.add_row(std::move(cells));
  }
  return text + small_text(table) + label_changes(*outcome.leaks) +
         verdict(observers, request, outcome);
}

std::string checks_in_words(const ForgetPlan& plan, const ForgetOutcome& outcome) {
  std::vector<std::string> checks{
      plan.rounding_check
          ? fmt::format("new layer in whole numbers, logits off by {:.2g} at most on {}",
                        plan.rounding_check->bound,
                        plan.head_check.on_class_means ? "class means" : "random vectors")
          : "new layer exact"};
  if (outcome.written_check && outcome.written_check->forgotten_rows_absent)
    checks.emplace_back("forgotten weights gone");
  if (const auto& check = outcome.run_check.check)  // which ones is in the receipt
    checks.push_back(fmt::format("old and new model run on {}",
                                 check->inputs.substr(0, check->inputs.find(':'))));
  return labelled("Checked:", Look::good,
                  fmt::format("{}{}.", fmt::join(checks, ", "),
                              outcome.run_check.not_run.empty() ? "" : "; the body was not run"));
}

void remark_on(const ForgetInputs& inputs, const ForgetPlan& plan, const ForgetOutcome& outcome) {
  std::set<std::pair<std::string, std::string>> before;
  for (const Finding& finding : inputs.model->findings())
    before.emplace(finding.where, finding.text);
  for (const Finding& finding : outcome.findings)
    if (!before.contains({finding.where, finding.text}))
      remark(fmt::format("note: {}{}{}", finding.where, finding.where.empty() ? "" : " ",
                         finding.text));
  for (const std::string& warning : warnings_of(plan, outcome)) remark("warning: " + warning);
}

}  // namespace oubli::cli
