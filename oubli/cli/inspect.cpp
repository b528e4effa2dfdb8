#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "oubli/base/interrupt.h"
#include "oubli/base/json.h"
#include "oubli/base/printable.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/cli/forget_text.h"
#include "oubli/cli/request_options.h"
#include "oubli/cli/result_stream.h"
#include "oubli/forget/receipt.h"

namespace oubli::cli {
namespace {

struct InspectOptions : RequestOptions {
  bool json = false;
};

void run(const InspectOptions& options) {
  check_words(options);
  if (!options.target.empty() && options.classes.empty())
    fail(ErrorCode::usage, "--target: logits of what? --class is missing");
  const LoadedModel loaded = load(options);
  nlohmann::ordered_json json{
      {"head", head_json(*loaded.model, head_digest(loaded.model->head()))}};
  if (!loaded.class_names.empty()) json["class_names"] = loaded.class_names;
  json["findings"] = nlohmann::ordered_json::array();
  for (const Finding& finding : loaded.model->findings())
    json["findings"].push_back({{"where", finding.where}, {"text", finding.text}});
  std::string text = describe_model(*loaded.model, loaded.class_names);
  require_finite(loaded.model->head());

  const bool known = loaded.inputs.means || loaded.inputs.data;
  if (options.classes.empty() && loaded.model->head().classes() < 3) {
    text += "no class can be forgotten: at least two must be left\n";
  } else if (known || !options.classes.empty()) {
    RequestOptions asked = options;
    // Shown with its note: forgetting works, if not with every method.
    asked.allow_nonlinear_tail = true;
    // Conditioning is the same whichever class goes; only the gain depends on it.
    if (asked.classes.empty()) asked.classes = {"index:0"};
    const ForgetRequest request = [&] {
      try {
        return make_request(asked, loaded);
      } catch (const Error&) {  // what there is, is told all the same
        if (!options.json) fmt::print(results(), "{}", text);
        throw;
      }
    }();
    if (known || !needs_class_means(request.method)) {
      const ForgetPlan plan = plan_forget(loaded.inputs, request, loaded.stop);
      const ForgetOutcome outcome = look_for_leaks(loaded.inputs, request, plan);
      json["if_forgotten"] = plan_json(loaded.inputs, request, plan, outcome);
      const HeadView& head = loaded.model->head();
      text += fmt::format("\nif class {} were to be forgotten:\n{}",
                          options.classes.empty()
                              ? std::string("0")
                              : fmt::format("{}", fmt::join(asked.classes, " and class ")),
                          describe_plan(loaded.inputs, request, plan, outcome));
      text += line("would change: {} from {} to {} classes{}; nothing was written",
                   loaded.model->head_name(), head.classes(), plan.split().retained.size(),
                   plan.new_head.bias_added ? ", and gain a bias" : "");
    } else {
      text += "give --means, or --features and --labels, to see what forgetting would do\n";
    }
  }
  throw_if_stopped(loaded.stop);
  if (options.json)
    fmt::print(results(), "{}\n", to_text(json, 1));
  else
    fmt::print(results(), "{}", text);
}

}  // namespace

void add_inspect(Command& app) {
  auto* const command = app.add_subcommand(
      "inspect", "What a model file holds and what forgetting would do; writes nothing");
  const auto options = std::make_shared<InspectOptions>();
  options->add_request(*command);
  command->get_option("--class")->required(false);
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->footer(
      "Examples:\n"
      "  oubli inspect model.onnx\n"
      "  oubli inspect model.pth\n"
      "  oubli inspect head.npz\n"
      "  oubli inspect model.safetensors --weights fc.weight --means means.npz --class 3");
  command->callback([options] { run(*options); });
}

}  // namespace oubli::cli
