#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "oubli/base/interrupt.h"
#include "oubli/base/json.h"
#include "oubli/base/names.h"
#include "oubli/base/output.h"
#include "oubli/base/printable.h"
#include "oubli/base/progress.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/cli/model_options.h"
#include "oubli/cli/result_stream.h"
#include "oubli/forget/sample_confusion.h"

namespace oubli::cli {
namespace {

struct MeansOptions : ModelOptions {
  std::string output;
  bool force = false;
  bool json = false;
  bool ignore_accuracy = false;
};

void run(const MeansOptions& options) {
  if (!options.has_data())
    fail(ErrorCode::usage, "means of what? Give --features or --logits, and --labels");
  prepare_output(options.output, options.force);
  LoadedModel loaded = load(options);
  std::vector<std::filesystem::path> inputs = options.named_files();
  std::ranges::copy(loaded.model->files(), std::back_inserter(inputs));
  require_apart(std::vector<std::filesystem::path>{options.output}, inputs);
  const HeadView& head = loaded.model->head();
  require_finite(head);
  const CalibrationData& data = *loaded.inputs.data;
  const auto chosen = choose_samples(data.labels, head.classes(), loaded.samples);
  const ClassMeans means = gather_means(data, head.classes(), chosen, true, loaded.class_names);
  if (!options.ignore_accuracy) {
    if (loaded.run != nullptr)
      loaded.run->check_alignment({}, loaded.class_names);
    else
      require_aligned(confusion_of(head, data, {}), {}, loaded.class_names, "");
  }
  double largest_error = std::nan("");  // one sample tells nothing about its error
  for (std::size_t j = 0; j < means.classes(); ++j)
    largest_error = std::fmax(largest_error, means.standard_error(j));
  const StoredMeans stored = store_means(data.space, means, loaded.class_names, head_digest(head));
  AtomicFile out(options.output, options.force);
  write_means(out, stored);
  loaded.model->check_unchanged();
  data.check_unchanged();
  throw_if_stopped(loaded.stop);
  out.commit();

  const auto label = [&](std::size_t j) { return class_label(j, loaded.class_names); };
  if (const auto warning = warning_of_few_samples(stored.counts, loaded.samples, label))
    say("warning: " + *warning);
  const auto [fewest, most] = std::ranges::minmax_element(stored.counts);
  const std::string_view space = name_of(data.space);
  if (options.json) {
    const nlohmann::ordered_json result{{"means", options.output},
                                        {"space", space},
                                        {"classes", means.classes()},
                                        {"dimensions", means.dimensions()},
                                        {"samples", chosen.size()},
                                        {"fewest_samples_of_a_class", *fewest},
                                        {"within_variance", means.within_variance()},
                                        {"largest_standard_error", largest_error}};
    fmt::print(results(), "{}\n", to_text(result, 1));
    return;
  }
  fmt::print(results(), "{}",
             line("{}: means of {} {} for {} classes, from {} samples ({} to {} of a class)",
                  options.output, means.dimensions(), space, means.classes(), chosen.size(),
                  *fewest, *most));
  if (std::isnan(largest_error))
    fmt::print(results(), "how sure the means are is unknown: one sample of each class\n");
  else
    fmt::print(
        results(),
        "standard deviation within classes {:.4g}, largest standard error of a mean {:.2g}\n",
        std::sqrt(means.within_variance()), largest_error);
  say("The file holds what 'oubli forget' may have to forget: keep it as safe as the data.");
}

}  // namespace

void add_means(Command& app) {
  auto* const command = app.add_subcommand(
      "means", "Class means of features or logits, so that later deletions need no data");
  const auto options = std::make_shared<MeansOptions>();
  command
      ->add_option("model", options->model,
                   "The model that they belong to: .npz, .safetensors, .onnx")
      ->required();
  options->add_head(*command);
  options->add_data(*command);
  options->add_run(*command);
  command->add_option("-o,--output", options->output, "The means file to write")->required();
  command->add_flag("--force", options->force, "Replace the output if it exists");
  command->add_flag("--ignore-accuracy", options->ignore_accuracy,
                    "Although the model seems to be wrong about the samples");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->footer(
      "Features are recommended: they stay the same when the head changes.\n\n"
      "Examples:\n"
      "  oubli means model.onnx --data calibration/ --scale 1 -o means.npz\n"
      "  oubli means head.npz --features f.npy --labels y.npy -o means.npz\n"
      "  oubli means head.safetensors --data calibration.npz --samples 100 -o means.npz");
  command->callback([options] { run(*options); });
}

}  // namespace oubli::cli
