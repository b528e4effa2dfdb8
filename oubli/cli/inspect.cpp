#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "oubli/base/interrupt.h"
#include "oubli/base/json.h"
#include "oubli/base/printable.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/cli/forget_summary.h"
#include "oubli/cli/forget_text.h"
#include "oubli/cli/request_options.h"
#include "oubli/cli/result_stream.h"
#include "oubli/cli/terminal.h"
#include "oubli/forget/receipt.h"

namespace oubli::cli {
namespace {

struct InspectOptions : RequestOptions {
  bool json = false;
  bool full = false;
};

// What there is to tell, for people and for programs.
struct Telling {
  nlohmann::ordered_json json;
  std::string text;
};

Telling tell_model(const InspectOptions& options, const LoadedModel& loaded) {
  const ModelFile& model = *loaded.model;
  Telling telling;
  telling.json["head"] = head_json(model, head_digest(model.head()));
  if (!loaded.class_names.empty()) telling.json["class_names"] = loaded.class_names;
  telling.json["findings"] = nlohmann::ordered_json::array();
  for (const Finding& finding : model.findings())
    telling.json["findings"].push_back({{"where", finding.where}, {"text", finding.text}});
  telling.text = options.full ? describe_model(model, loaded.class_names)
                              : model_in_words(model, loaded.class_names);
  return telling;
}

void tell_forgetting(const InspectOptions& options, const LoadedModel& loaded,
                     const ForgetRequest& request, Telling& telling) {
  const ForgetPlan plan = plan_forget(loaded.inputs, request, loaded.stop);
  const ForgetOutcome outcome = look_for_leaks(loaded.inputs, request, plan);
  telling.json["if_forgotten"] = plan_json(loaded.inputs, request, plan, outcome);
  if (!options.full) {
    telling.text += headline(loaded.inputs, request, plan, "") +
                    findings_in_words(loaded.inputs, request, outcome) +
                    told("Nothing was written. More: --full; limits: --limits.");
    remark_on(loaded.inputs, plan, outcome);
    return;
  }
  telling.text += fmt::format("\nif {} were to be forgotten:\n{}", classes_in_words(request),
                              describe_plan(loaded.inputs, request, plan, outcome));
  telling.text +=
      line("would change: {} from {} to {} classes{}; nothing was written",
           loaded.model->head_name(), loaded.model->head().classes(), plan.split().retained.size(),
           plan.new_head.bias_added ? ", and gain a bias" : "");
}

// The request that is looked at: the one asked for, or, where data are given, that for class 0:
// conditioning is the same whichever class goes.
ForgetRequest request_to_show(const InspectOptions& options, const LoadedModel& loaded,
                              const Telling& telling) {
  RequestOptions asked = options;
  // Shown with its note: forgetting works, if not with every method.
  asked.allow_nonlinear_tail = true;
  if (asked.classes.empty()) asked.classes = {"index:0"};
  try {
    return make_request(asked, loaded);
  } catch (const Error&) {  // what there is, is told all the same
    if (!options.json) fmt::print(results(), "{}", telling.text);
    throw;
  }
}

void run(const InspectOptions& options) {
  check_words(options);
  if (!options.target.empty() && options.classes.empty())
    fail(ErrorCode::usage, "--target: logits of what? --class is missing");
  LoadedModel loaded = open_model(options);
  Telling telling = tell_model(options, loaded);
  require_finite(loaded.model->head());

  const bool known = !options.means.empty() || options.has_data();
  if (options.classes.empty() && loaded.model->head().classes() < 3) {
    telling.text += "no class can be forgotten: at least two must be left\n";
  } else if (known || !options.classes.empty()) {
    const ForgetRequest request = request_to_show(options, loaded, telling);
    run_on_data(loaded, options);
    if (known || !needs_class_means(request.method))
      tell_forgetting(options, loaded, request, telling);
    else
      telling.text +=
          told("Give --data, --means, or --features and --labels to see what forgetting would do.");
  }
  throw_if_stopped(loaded.stop);
  fmt::print(results(), "{}", options.json ? to_text(telling.json, 1) + '\n' : telling.text);
}

}  // namespace

void add_inspect(Command& app) {
  auto* const command = app.add_subcommand(
      "inspect", "What a model file holds and what forgetting would do; writes nothing");
  const auto options = std::make_shared<InspectOptions>();
  options->add_request(*command);
  command->get_option("--class")->required(false);
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->add_flag("--full", options->full, "Print every figure");
  command->add_text("--limits", limits_text, "Print what forgetting does not do, and nothing else");
  command->footer(
      "Examples:\n"
      "  oubli inspect model.onnx\n"
      "  oubli inspect model.pth\n"
      "  oubli inspect model.onnx --data images/ --class alice\n"
      "  oubli inspect model.safetensors --weights fc.weight --means means.npz --class 3");
  command->callback([options] { run(*options); });
}

}  // namespace oubli::cli
