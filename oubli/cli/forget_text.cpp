#include "oubli/cli/forget_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "oubli/base/names.h"
#include "oubli/base/printable.h"
#include "oubli/base/text_table.h"
#include "oubli/cli/terminal.h"
#include "oubli/forget/receipt.h"

namespace oubli::cli {
namespace {

std::string three_digits(const std::optional<double>& value) {
  return value ? fmt::format("{:.3f}", *value) : "-";
}

std::string describe_solver(const SolverReport& report) {
  std::string figures = fmt::format("  conditioning {:.2g}", report.conditioning);
  double gain = 0;
  for (const double g : report.gain)
    if (!std::isnan(g)) gain = std::max(gain, g);
  if (gain > 0)
    figures +=
        fmt::format(", gain {:.2g} ({})", gain, report.gain_measured ? "measured" : "estimated");
  std::string text = line("solver {}: {}", name_of(report.chosen), report.reason);
  text += line("{}, residual {:.1e} on forgotten and {:.1e} on retained classes", figures,
               report.residual_forgotten, report.residual_retained);
  for (const std::string& tried : report.tried) text += line("  passed over: {}", tried);
  return text;
}

// "rho 0.07: 4500 retained samples explain 0.81 of the forgotten mean"
std::string describe_explanation(const Explanation& explanation) {
  if (!explanation.too_few.empty()) return ", not explained: see the warning";
  std::vector<std::string> shares;
  for (const double share : explanation.kept) shares.push_back(fmt::format("{:.2f}", share));
  return fmt::format(
      ", rho {:g}: {} retained {} explain {} of the forgotten mean{}", explanation.rho,
      explanation.rows,
      explanation.from == SpreadFrom::samples ? "samples" : "class means and variances",
      fmt::join(shares, ", "), shares.size() == 1 ? "" : "s");
}

constexpr std::size_t kMostListed = 20;

std::string and_more(std::size_t count) {
  return count > kMostListed ? fmt::format(", and {} more (see --json)", count - kMostListed) : "";
}

// "0 ant (40), 2 -> 1 cat (40)": the index before and, if another, after; samples.
std::string describe_kept(const ForgetRequest& request, const ForgetPlan& plan) {
  const std::vector<std::size_t>& retained = plan.split().retained;
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < std::min(retained.size(), kMostListed); ++i) {
    const std::size_t j = retained[i];
    std::string entry = i == j ? std::to_string(j) : fmt::format("{} -> {}", j, i);
    if (!request.class_names.empty()) entry += " " + request.class_names[j];
    if (plan.means) entry += fmt::format(" ({})", plan.means->counts[j]);
    kept.push_back(std::move(entry));
  }
  return line("kept, by old -> new index{}: {}{}", plan.means ? " (samples)" : "",
              fmt::join(kept, ", "), and_more(retained.size()));
}

std::string leak_table(const LeakCheck& leaks, const ForgetRequest& request) {
  using enum TextTable::Align;
  const std::string method(name_of(request.method));
  const bool naive = request.method == Method::naive;  // nothing to compare it with
  std::vector<TextTable::Column> columns{{"class", left}, {"observer", left}, {"samples", right}};
  for (const std::string figure : {"ghost, ", "read-out, "}) {
    if (!naive) columns.push_back({figure + "naive", right});
    columns.push_back({figure + method, right});
  }
  TextTable table(columns);
  for (const LeakRow& row : leaks.rows) {
    std::vector<std::string> cells{class_label(row.forgotten_class, request.class_names),
                                   std::string(name_of(row.observer)), std::to_string(row.samples)};
    if (!naive) cells.push_back(three_digits(row.ghost_naive));
    cells.push_back(three_digits(row.ghost));
    if (!naive) cells.push_back(three_digits(row.readout_naive));
    cells.push_back(three_digits(row.readout));
    table.add_row(cells);
  }
  return table.text();
}

std::string describe_labels(const LeakCheck& leaks) {
  std::string text = line("labels that differ from naive deletion: {} of {}", leaks.label_flips,
                          leaks.label_samples);
  if (leaks.label_flips == 0 || leaks.kept_samples == 0) return text;
  const auto percent = [&](std::size_t right) {
    return 100 * static_cast<double>(right) / static_cast<double>(leaks.kept_samples);
  };
  return text + line(
                    "  {} of forgotten classes, {} of retained ones, of which {:.2f} % are right, "
                    "{:.2f} % after naive deletion",
                    leaks.label_flips - leaks.kept_flips, leaks.kept_flips,
                    percent(leaks.kept_right_now), percent(leaks.kept_right));
}

std::string describe_run(const RunReport& report) {
  std::string text = "\n";
  text += line("ran on {} ({} samples{}, {}), inputs {}, {}{}", report.data, report.samples,
               report.positions.empty()
                   ? ""
                   : fmt::format(" of {} positions", fmt::join(report.positions, " x ")),
               report.labels, report.preparation, report.runtime,
               report.as_float ? " on a float32 copy (it has no bfloat16)" : "");
  text += line("accuracy before: {:.2f} %", 100 * report.accuracy);
  return text;
}

std::string describe_run_check(const RunOutcome& outcome) {
  if (!outcome.check)
    return outcome.not_run.empty() ? "" : line("the body was not run: {}", outcome.not_run);
  const RunCheck& check = *outcome.check;
  std::string text = line(
      "old and new model run on {}: the same features within {:.2g} of what rounding explains, the "
      "new layer within {:.2g}",
      check.inputs, check.features_over_bound, check.head_mismatch);
  if (check.kept_accuracy_before)
    text += line("kept classes {:.2f} % right, {:.2f} % before", 100 * *check.kept_accuracy_after,
                 100 * *check.kept_accuracy_before);
  if (check.compared_with_naive)
    text += line(
        "softmax against naive deletion: {} labels flip, centred logits differ by at most {:.2g} "
        "({:.2g} of what rounding explains)",
        check.label_flips, check.largest_difference, check.largest_ratio);
  for (const std::string& output : check.outputs_not_compared)
    text += line("output '{}' was not compared: what it makes of the logits is not known", output);
  return text;
}

std::string describe_quantised(const ModelFile& model, const ForgetPlan& plan) {
  if (!model.quantised()) return "";
  if (model.becomes_floats()) return "the quantised head becomes one of floats\n";
  if (!plan.rounding_check) return "the quantised head keeps its whole numbers\n";
  const RoundingCheck& check = *plan.rounding_check;
  return line(
      "the quantised head is rounded to whole numbers of fresh scales, steps {:.2g} times the old "
      "ones: logits are off by at most {:.2g} |f|_1 + {:.2g}; on {} by {:.2g}, bound {:.2g}",
      check.coarser, check.weight_step / 2, check.bias_step / 2,
      plan.head_check.on_class_means ? "the class means" : "random vectors", check.error,
      check.bound);
}

}  // namespace

std::string describe_model(const ModelFile& model, std::span<const std::string> class_names) {
  const HeadView& head = model.head();
  std::string text =
      line("{}: {}, head {}", model.path().string(), model.format(), model.head_name());
  text += line("  {} classes x {} features, {}, stored as {}, {}", head.classes(), head.features(),
               name_of(head.weights.dtype),
               head.transposed ? "features x classes" : "classes x features",
               head.bias ? "with bias" : "without bias");
  if (!class_names.empty())
    text += line("  names: {}{}",
                 fmt::join(class_names.first(std::min(class_names.size(), kMostListed)), ", "),
                 and_more(class_names.size()));
  for (const Finding& finding : model.findings())
    text += line("  note: {} {}", finding.where, finding.text);
  return text;
}

std::string describe_plan(const ForgetInputs& inputs, const ForgetRequest& request,
                          const ForgetPlan& plan, const ForgetOutcome& outcome) {
  std::vector<std::string> forgotten;
  for (const std::size_t c : request.forget)
    forgotten.push_back(
        class_label(c, request.class_names) +
        (plan.means ? fmt::format(" ({} samples)", plan.means->counts[c]) : std::string()));
  std::string text = line("forgetting {} of {} classes: {}", request.forget.size(),
                          plan.split().classes, fmt::join(forgotten, ", "));
  text += describe_kept(request, plan);
  text += line("method {}{}", name_of(plan.filtration.method),
               request.method == Method::randomization ? fmt::format(", seed {}", request.seed)
               : plan.filtration.explanation ? describe_explanation(*plan.filtration.explanation)
                                             : "");
  if (plan.filtration.solver) text += describe_solver(*plan.filtration.solver);
  if (plan.filtration.centred)
    text += line(
        "the old head's rows sum to zero ({:.2g}, below {}): the new ones are centred so that they "
        "do, too; probabilities and labels are the same",
        plan.filtration.row_sum, kRowsSumToZero);
  if (plan.means)
    text += line("class means of {}, from {}", name_of(plan.means->space),
                 inputs.means ? "the means file" : "the data");
  text += line("self-check on {}: error {:.2g}, {:.2g} of its bound",
               plan.head_check.on_class_means ? "the class means" : "random vectors",
               plan.head_check.identity.largest_error, plan.head_check.identity.largest_ratio);
  text += describe_quantised(*inputs.model, plan);
  if (inputs.run != nullptr) text += describe_run(inputs.run->report());
  text += describe_run_check(outcome.run_check);
  if (outcome.leaks && !outcome.leaks->rows.empty()) {
    text += "\n";
    text += line(
        "leak check on {} samples: can an observer of one model tell the forgotten class's inputs?",
        outcome.leaks->samples);
    text +=
        "(AUC, 0.5 to 1; the floor is that of a retrained network, unknown here and above 0.5)\n";
    text += leak_table(*outcome.leaks, request);
    text += describe_labels(*outcome.leaks);
  }
  for (const std::string& warning : warnings_of(plan, outcome))
    text += line("warning: {}", warning);
  if (!inputs.data) text += "not checked: leaks, since no data was given\n";
  if (outcome.leaks)
    for (const std::string& what : outcome.leaks->not_checked)
      text += line("not checked: {}", what);
  return text;
}

std::string limits_text() {
  std::string text = "What forgetting does not do, and no receipt proves:\n";
  for (const std::string& limit : limits_of_the_method()) text += told("- " + limit, 2);
  return text;
}

std::string describe_digests(const ForgetPlan& plan, const ForgetOutcome& outcome) {
  std::string text;
  for (const auto& [what, files] :
       {std::pair("input", &plan.digests.model), std::pair("output", &outcome.written),
        std::pair("means", &plan.digests.means)})
    for (const FileDigest& file : *files)
      text += line("sha256 of the {} {}: {}", what, file.name, file.sha256);
  return text;
}

std::string describe_findings(const ModelFile& model, const ForgetOutcome& outcome) {
  std::string text;
  const std::vector<Finding> before = model.findings();
  for (const Finding& finding : outcome.findings)
    if (std::ranges::find(before, finding) == before.end())
      text += line("note: {}{}{}", finding.where, finding.where.empty() ? "" : " ", finding.text);
  return text;
}

}  // namespace oubli::cli
