#include "oubli/cli/forget_curvature.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "oubli/base/interrupt.h"
#include "oubli/base/json.h"
#include "oubli/cli/forget_summary.h"
#include "oubli/cli/result_stream.h"
#include "oubli/cli/terminal.h"
#include "oubli/forget/curvature.h"

namespace oubli::cli {
namespace {

void print_plan(const LoadedModel& loaded, const ForgetRequest& request, const CurvaturePlan& plan,
                const std::string& output) {
  const std::string what =
      fmt::format("{} {}:", output.empty() ? "Would forget" : "Forgot", classes_in_words(request));
  const std::string text = fmt::format(
      "{} ({} classes) -> {}{} left.", loaded.model->path().string(), plan.split.classes,
      output.empty() ? "" : output + ", ", plan.split.retained.size());
  const RunReport& report = loaded.run->report();
  fmt::print(results(), "{}{}", labelled(what, Look::bold, text),
             told(fmt::format("By curvature (experimental), from {} samples of {}.", report.samples,
                              report.data)));
  const GuardedStep& step = plan.step;
  fmt::print(results(), "{}", told(fmt::format("Changed: {}.", fmt::join(plan.tensors, ", "))));
  fmt::print(results(), "{}",
             told(fmt::format("The old head gives the class {:.2f} on its own images before the "
                              "step, {:.2f} after; {:.2f} to {:.2f} was wanted.",
                              step.own_probability_before, step.own_probability,
                              kLeastOwnProbability, kMostOwnProbability)));
}

void print_outcome(const CurvaturePlan& plan, const CurvatureOutcome& outcome,
                   const ForgetOutputs& outputs, const LoadedModel& loaded) {
  const CurvatureRun& run = outcome.run;
  const auto percent = [&](std::size_t right) {
    return 100.0 * static_cast<double>(right) / static_cast<double>(run.retained);
  };
  fmt::print(
      results(), "{}{}",
      told(fmt::format("Accuracy on the classes kept: {:.2f} % before, {:.2f} % after "
                       "({:.2f} % if merely cut off).",
                       percent(run.right_before), percent(run.right_now),
                       percent(run.right_cut_off))),
      told(fmt::format("Top labels changed, against cutting off: {} of {} forgotten, {} of "
                       "{} kept inputs.",
                       run.forgotten_flips, run.forgotten, run.retained_flips, run.retained)));
  fmt::print(
      results(), "{}",
      told(fmt::format(
          "Checked: the old rows of the head are {}, the old layer before it is {}, all other "
          "tensors are as they were; the new file computes what its head says. Leaks were not "
          "looked for: 'oubli audit'.",
          outcome.written_check.forgotten_rows_absent ? "gone" : "NOT known to be gone",
          outcome.old_layer_absent ? "gone" : "NOT known to be gone")));
  std::vector<std::string> endings{".receipt.json"};
  if (outputs.class_names) endings.emplace_back(".class-names.txt");
  if (outputs.attest) endings.emplace_back(".intoto.jsonl");
  if (outputs.bundle) endings.emplace_back(".sigstore.json");
  fmt::print(results(), "{}{}",
             told(fmt::format("Beside {}: {}. No means file: features are others now.",
                              outputs.model.filename().string(), fmt::join(endings, ", "))),
             labelled("To do:", Look::bold,
                      fmt::format("delete {}, its means and all copies. Limits: in the receipt.",
                                  loaded.model->path().string())));
  for (const std::string& warning : plan.warnings) remark("warning: " + warning);
  for (const std::string& warning : outcome.written_check.warnings) remark("warning: " + warning);
  for (const Finding& finding : outcome.findings)
    remark(fmt::format("note: {}{}{}", finding.where, finding.where.empty() ? "" : ": ",
                       finding.text));
}

}  // namespace

void forget_by_curvature(const LoadedModel& loaded, const ForgetRequest& request,
                         const ForgetOutputs& outputs, const CurvaturePrinting& how) {
  const CurvaturePlan plan = plan_curvature(loaded.inputs, request, loaded.stop);
  if (how.dry_run) {
    throw_if_stopped(loaded.stop);
    if (how.json)
      fmt::print(results(), "{}\n",
                 to_text(nlohmann::ordered_json{{"dry_run", true},
                                                {"method", kCurvature},
                                                {"tensors_changed", plan.tensors},
                                                {"scale", plan.step.scale},
                                                {"own_probability", plan.step.own_probability},
                                                {"warnings", plan.warnings}},
                         1));
    else
      print_plan(loaded, request, plan, "");
    return;
  }
  const CurvatureOutcome outcome =
      carry_out_curvature(loaded.inputs, request, plan, outputs, loaded.stop);
  if (how.json) {
    fmt::print(results(), "{}", outcome.receipt);
    return;
  }
  print_plan(loaded, request, plan, outputs.model.string());
  print_outcome(plan, outcome, outputs, loaded);
  if (how.full) {
    for (const FileDigest& file : outcome.written)
      fmt::print(results(), "{}: {} {}\n", file.role, file.name, file.sha256);
    for (const std::string& limit : limits_of_curvature()) fmt::print(results(), "{}", told(limit));
  }
}

}  // namespace oubli::cli
