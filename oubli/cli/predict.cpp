#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "oubli/array/npy.h"
#include "oubli/base/error.h"
#include "oubli/base/json.h"
#include "oubli/base/output.h"
#include "oubli/base/progress.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/data/load.h"
#include "oubli/nn/network_file.h"
#include "oubli/nn/train.h"

namespace oubli::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  fs::path model;
  std::string data;
  std::string split = "test";
  fs::path output;
  fs::path features;
  fs::path labels;
  bool force = false;
  bool print_json = false;
};

void write_matrix(const fs::path& path, const Matrix<float>& matrix, bool force) {
  write_npy(path, to_tensor<float>(matrix.view()).view(path.string()), force);
}

// Accuracy and loss over the images whose class the model knows, by name.
nn::Score known_score(const nn::NamedNetwork& model, const Matrix<float>& logits,
                      const ImageSet& images) {
  std::vector<std::uint32_t> labels;
  std::vector<float> rows;
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto found = std::ranges::find(model.class_names, images.class_names[images.labels[i]]);
    if (found == model.class_names.end()) continue;
    labels.push_back(static_cast<std::uint32_t>(found - model.class_names.begin()));
    rows.insert(rows.end(), logits.row(i).begin(), logits.row(i).end());
  }
  const std::size_t count = labels.size();
  return nn::score(Matrix<float>(count, logits.cols(), rows), labels);
}

void run(const Options& options) {
  const std::vector<fs::path> outputs{options.output, options.features, options.labels};
  require_apart(outputs, std::vector<fs::path>{options.model});
  for (const fs::path& path : outputs)
    if (!path.empty()) prepare_output(path, options.force);
  const nn::NamedNetwork model = nn::load_network(options.model);
  const ImageSet images =
      load_data_set(options.data, options.split == "train" ? Split::train : Split::test);
  const Matrix<float> logits = model.network.logits(images);
  if (!options.features.empty())
    write_matrix(options.features, model.network.features(images), options.force);
  if (!options.labels.empty()) {
    const std::vector<std::int64_t> labels(images.labels.begin(), images.labels.end());
    write_npy(options.labels,
              {DType::i64, {labels.size()}, std::as_bytes(std::span(labels)), "labels"},
              options.force);
  }
  write_matrix(options.output, logits, options.force);
  const nn::Score result = known_score(model, logits, images);
  if (options.print_json) {
    const nlohmann::json document{
        {"model", options.model.string()},  {"data", options.data},
        {"split", options.split},           {"images", images.size()},
        {"classes", model.class_names},     {"known_images", result.count},
        {"accuracy", result.accuracy},      {"loss", result.loss},
        {"logits", options.output.string()}};
    fmt::print("{}\n", to_text(document, 2));
    return;
  }
  fmt::print(
      "{}: {} x {} logits; accuracy {:.2f} %, loss {:.4f} on {} images of classes it knows\n",
      options.output.string(), logits.rows(), logits.cols(), 100 * result.accuracy, result.loss,
      result.count);
}

}  // namespace

void add_predict(Command& app) {
  auto options = std::make_shared<Options>();
  Command* command =
      app.add_subcommand("predict", "Logits of a network that oubli trained, on a data set");
  command
      ->add_option("MODEL", options->model, "ONNX file written by 'oubli train' or 'oubli forget'")
      ->required();
  command->add_option("--data", options->data, "fashion-mnist, mnist, cifar10 or faces")
      ->required();
  command->add_option("--split", options->split, "train or test")
      ->one_of({"train", "test"})
      ->capture_default_str();
  command->add_option("-o,--output", options->output, "Logits, .npy, images x classes")->required();
  command->add_option("--features", options->features, "Also write what the head reads, .npy");
  command->add_option("--labels", options->labels,
                      "Also write the images' labels, .npy, in the data set's numbering");
  command->add_flag("--force", options->force, "Replace what is there");
  command->add_flag("--json", options->print_json, "Print the result as JSON");
  command->footer(
      "Examples:\n"
      "  oubli predict model.onnx --data fashion-mnist -o logits.npy\n"
      "  oubli predict model.onnx --data fashion-mnist --split train --features f.npy --labels "
      "y.npy -o z.npy");
  command->callback([options] { run(*options); });
}

}  // namespace oubli::cli
