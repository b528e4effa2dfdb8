#include "oubli/nn/train.h"

#include <atomic>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/json.h"
#include "oubli/base/names.h"
#include "oubli/base/output.h"
#include "oubli/base/progress.h"
#include "oubli/base/workers.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/data/load.h"
#include "oubli/nn/network_file.h"

namespace oubli::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct TrainCommandOptions {
  std::string data;
  std::string network;
  std::size_t features = 256;
  std::vector<std::string> without;
  std::optional<std::size_t> epochs;
  std::optional<std::size_t> batch;
  std::string optimizer = "adam";
  double learning_rate = 1e-3;
  double momentum = 0.9;
  double weight_decay = 0;
  std::uint64_t seed = 0;
  std::uint64_t model = 0;
  std::size_t models = 0;  // 0: one model, a file
  unsigned jobs = 0;
  fs::path output;
  bool force = false;
  bool print_json = false;
};

std::string default_network(const std::string& data) {
  if (data == "cifar10") return "cnn";
  return data == "faces" ? "residual" : "mlp";
}

// Whether --network is a file that describes one.
bool is_description(const std::string& network) {
  return !network.empty() && network != "mlp" && network != "cnn" && network != "residual";
}

// The named network for images and classes like those of `set`.
nn::NetworkSpec network_for(const std::string& name, std::size_t features, const ImageSet& set,
                            std::size_t classes) {
  nn::NetworkSpec spec;
  if (name == "mlp") {
    spec = nn::mlp_network();
  } else if (name == "cnn") {
    spec = nn::cnn_network(features);
  } else if (name == "residual") {
    spec = nn::residual_network();
  } else {
    json document = json::parse(read_text_file(name), nullptr, false);
    if (document.is_discarded()) fail(ErrorCode::bad_input, "{}: not JSON", name);
    // a file may leave these to the data
    if (document.is_object() && !document.contains("input"))
      document["input"] = {set.channels, set.height, set.width};
    if (document.is_object()) document["classes"] = classes;
    return nn::network_from_json(document, name);
  }
  spec.channels = set.channels;
  spec.height = set.height;
  spec.width = set.width;
  spec.classes = classes;
  check(spec);
  return spec;
}

json run_one(const nn::NetworkSpec& spec, const ImageSet& images, const ImageSet& test,
             const nn::TrainOptions& train_options, const fs::path& path, bool force,
             const std::stop_token& stop, Progress& progress) {
  double loss = 0;
  const nn::Network network =
      train(spec, images, train_options, stop, [&](const nn::EpochReport& epoch) {
        loss = epoch.loss;
        progress.step();
      });
  const nn::Score result = nn::score(network.logits(test), test.labels);
  nn::save_network(network, test.class_names, path, force);
  return {{"file", path.string()},    {"model", train_options.model},
          {"training_loss", loss},    {"test_accuracy", result.accuracy},
          {"test_loss", result.loss}, {"test_images", result.count}};
}

nn::TrainOptions train_options_of(const TrainCommandOptions& options, const ImageSet& images,
                                  bool residual) {
  nn::TrainOptions out;
  for (const std::string& word : options.without)
    out.without.push_back(class_named(word, images.class_names, images.class_names.size()));
  out.epochs = options.epochs.value_or(residual ? 15 : 6);
  out.batch = options.batch.value_or(residual ? 8 : 32);
  out.seed = options.seed;
  out.optimizer.kind =
      options.optimizer == "sgd" ? nn::Optimizer::Kind::sgd : nn::Optimizer::Kind::adam;
  out.optimizer.learning_rate = options.learning_rate;
  out.optimizer.momentum = options.momentum;
  out.optimizer.weight_decay = options.weight_decay;
  return out;
}

void print_json(const TrainCommandOptions& options, const nn::NetworkSpec& spec,
                const nn::TrainOptions& train_options, const std::vector<json>& results) {
  const json document{{"data", options.data},
                      {"network", to_json(spec)},
                      {"seed", options.seed},
                      {"epochs", train_options.epochs},
                      {"batch", train_options.batch},
                      {"without", options.without},
                      {"models", results}};
  fmt::print("{}\n", to_text(document, 2));
}

void run(const TrainCommandOptions& options) {
  const bool folder = options.models > 0;
  const std::size_t models = folder ? options.models : 1;
  const auto path_of = [&](std::size_t model) {
    return folder ? options.output / fmt::format("model-{:04}.onnx", model) : options.output;
  };
  for (std::size_t m = 0; m < models; ++m) {
    if (is_description(options.network))
      require_apart(std::vector{path_of(m)}, std::vector<fs::path>{options.network});
    // A folder that is not there is made when there is something to write.
    if (!folder || fs::exists(options.output)) prepare_output(path_of(m), options.force);
  }

  const ImageSet images = load_data_set(options.data, Split::train);
  const std::string name =
      options.network.empty() ? default_network(options.data) : options.network;
  const nn::TrainOptions train_options = train_options_of(options, images, name == "residual");
  const ImageSet test =
      without_classes(load_data_set(options.data, Split::test), train_options.without);
  const nn::NetworkSpec spec = network_for(name, options.features, images, test.classes());

  if (folder) fs::create_directories(options.output);
  const std::stop_token stop = stop_on_interrupt();
  std::vector<json> results(models);
  {
    Progress progress("training", models * train_options.epochs);
    const unsigned jobs = options.jobs == 0 ? available_cores() : options.jobs;
    run_tasks(
        models, jobs,
        [&](std::size_t m, unsigned) {
          nn::TrainOptions mine = train_options;
          mine.model = options.model + m;
          results[m] = run_one(spec, images, test, mine, path_of(m), options.force, stop, progress);
        },
        stop);
  }
  if (options.print_json) return print_json(options, spec, train_options, results);
  for (const json& result : results)
    fmt::print("{}  accuracy {:.2f} %  loss {:.4f}  ({} test images)\n",
               result["file"].get<std::string>(), 100 * result["test_accuracy"].get<double>(),
               result["test_loss"].get<double>(), result["test_images"].get<std::size_t>());
}

}  // namespace

void add_train(Command& app) {
  auto options = std::make_shared<TrainCommandOptions>();
  Command* command = app.add_subcommand("train", "Train a network and write it as an ONNX file");
  command->add_option("DATA", options->data, "fashion-mnist, mnist, cifar10 or faces")->required();
  command->add_option("--network", options->network,
                      "mlp, cnn, residual, or a JSON file of layers (default: by the data set)");
  command->add_option("--features", options->features, "Units before the head of the cnn")
      ->range(1, 1'000'000)
      ->capture_default_str();
  command->add_option("--without", options->without,
                      "Classes to leave out of the training, by name or number");
  command->add_option("--epochs", options->epochs, "Default 6; residual 15")->range(1, 1'000'000);
  command->add_option("--batch", options->batch, "Default 32; residual 8")->range(1, 1'000'000);
  command->add_option("--optimizer", options->optimizer, "adam or sgd")
      ->one_of({"adam", "sgd"})
      ->capture_default_str();
  command->add_option("--learning-rate", options->learning_rate, "Of the optimizer")
      ->capture_default_str();
  command->add_option("--momentum", options->momentum, "Of sgd")->capture_default_str();
  command->add_option("--weight-decay", options->weight_decay, "Of sgd")->capture_default_str();
  command->add_option("--seed", options->seed, "Everything random follows from seed and model")
      ->capture_default_str();
  command->add_option("--model", options->model, "Number of the (first) model")
      ->capture_default_str();
  command->add_option("--models", options->models, "Train so many, into the folder -o names")
      ->range(1, 1'000'000);
  command->add_option("-j,--jobs", options->jobs, "Models at a time (default: one per core)")
      ->range(1, 1024);
  command->add_option("-o,--output", options->output, "The model file; with --models a folder")
      ->required();
  command->add_flag("--force", options->force, "Replace what is there");
  command->add_flag("--json", options->print_json, "Print the result as JSON");
  command->footer(
      "Examples:\n"
      "  oubli train fashion-mnist -o model.onnx\n"
      "  oubli train cifar10 --network cnn --features 1024 --without cat -o retrained.onnx\n"
      "  oubli train mnist --models 20 --jobs 2 --seed 1 -o models/\n"
      "A JSON file of layers: {\"format\": \"oubli-network\", \"version\": 1, \"layers\": [\n"
      "  {\"kind\": \"conv\", \"units\": 16, \"kernel\": 3}, {\"kind\": \"relu\"},\n"
      "  {\"kind\": \"max_pool\", \"kernel\": 2, \"stride\": 2}, {\"kind\": \"dense\", \"units\": "
      "64}, {\"kind\": \"relu\"}]}\n"
      "Kinds: dense, conv, max_pool, global_max_pool, global_average_pool, batch_norm, relu,\n"
      "sigmoid, residual (branch, shortcut). The head, one unit per class, is added.");
  command->callback([options] { run(*options); });
}

}  // namespace oubli::cli
