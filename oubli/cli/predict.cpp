#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <vector>

#include "oubli/array/npy.h"
#include "oubli/base/enum_names.h"
#include "oubli/base/error.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/json.h"
#include "oubli/base/names.h"
#include "oubli/base/output.h"
#include "oubli/base/workers.h"
#include "oubli/cli/class_names.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/cli/model_options.h"
#include "oubli/cli/terminal.h"
#include "oubli/data/load.h"
#include "oubli/forget/stated_preparation.h"
#include "oubli/nn/network_file.h"
#include "oubli/nn/train.h"
#include "oubli/runtime/model_runner.h"

namespace oubli::cli {
namespace {

namespace fs = std::filesystem;

struct PredictOptions {
  ModelOptions model;  // and the data
  std::string split;
  fs::path output;
  fs::path features;
  fs::path labels;
  std::vector<std::string> tensors;  // NAME=FILE
  bool force = false;
  bool print_json = false;
};

// A value of the graph, and where it goes.
struct Wanted {
  std::string name;
  fs::path file;
};

std::vector<Wanted> wanted_values(const std::vector<std::string>& words) {
  std::vector<Wanted> wanted;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size())
      fail(ErrorCode::usage, "--tensor {}: wanted NAME=FILE.npy", word);
    wanted.push_back({word.substr(0, equals), word.substr(equals + 1)});
    const std::string& name = wanted.back().name;
    if (std::ranges::count(wanted, name, &Wanted::name) > 1)
      fail(ErrorCode::usage, "--tensor {}: named twice", name);
  }
  return wanted;
}

bool depends_on_input(const onnx::Graph& graph, const onnx::Node& node) {
  std::set<const onnx::Node*> met{&node};
  std::vector<const onnx::Node*> open{&node};
  while (!open.empty()) {
    const onnx::Node& next = *open.back();
    open.pop_back();
    for (const auto* const names : {&next.inputs, &next.outer_names})
      for (const std::string& name : *names) {
        const onnx::Node* const producer = graph.producer(name);
        if (producer == nullptr) {
          if (graph.initializer(name) == nullptr &&
              std::ranges::find(graph.inputs, name, &onnx::ValueInfo::name) != graph.inputs.end())
            return true;
        } else if (met.insert(producer).second) {
          open.push_back(producer);
        }
      }
  }
  return false;
}

// Error{usage} unless a node makes this value from what the model is given.
void require_value(const onnx::Model& model, const std::string& name) {
  const onnx::Graph& graph = model.graph();
  const onnx::Node* const producer = graph.producer(name);
  if (producer == nullptr) {
    std::vector<std::string> names;
    for (const onnx::Node& node : graph.nodes)
      std::ranges::copy_if(node.outputs, std::back_inserter(names),
                           [](const std::string& output) { return !output.empty(); });
    fail(ErrorCode::usage, "--tensor {}: no node of {} has such an output; the nearest of {}: {}",
         name, model.what(), names.size(), fmt::join(nearest_names(name, names, 5), ", "));
  }
  if (!depends_on_input(graph, *producer))
    fail(ErrorCode::usage, "--tensor {}: is the same whatever the model is given", name);
}

// One row of numbers for each of `samples` samples, which came first among `fed` inputs.
Matrix<float> rows_of_value(const Tensor& value, std::size_t fed, std::size_t samples,
                            const std::string& name) {
  if (value.shape.empty() || value.shape[0] != fed)
    fail(ErrorCode::bad_input,
         "--tensor {}: {} from {} inputs; wanted samples along the first axis, one row for each",
         name, describe(value.view(name)), fed);
  const std::size_t columns = element_count(value.shape, name) / fed;
  Matrix<float> rows(samples, columns);
  decode(value.dtype, std::span(value.bytes).first(samples * columns * size_of(value.dtype)),
         rows.flat());
  return rows;
}

// The files that are written row by row while the model runs.
class Outputs {
 public:
  Outputs(const PredictOptions& options, std::span<const Wanted> wanted, const ModelRunner& runner,
          std::size_t samples, const Sample& example)
      : runner_(runner), samples_(samples), wanted_(wanted) {
    // One sample shows the shapes, and that values follow the number of samples.
    const ModelOutputs one = runner.run(std::span(&example, 1), true);
    logits_ = open(options.output, one.logits.cols(), options.force);
    if (!options.features.empty())
      features_ = open(options.features, one.features.cols(), options.force);
    for (const Wanted& value : wanted_)
      values_.push_back(open(value.file, rows(one, value.name, 1).cols(), options.force));
  }

  void add(const ModelOutputs& batch) {
    const std::size_t count = batch.logits.rows();
    logits_->append(batch.logits.view());
    if (features_) features_->append(batch.features.view());
    for (std::size_t i = 0; i < wanted_.size(); ++i)
      values_[i]->append(rows(batch, wanted_[i].name, count).view());
  }
  void commit() {
    for (const auto& file : values_) file->commit();
    if (features_) features_->commit();
    logits_->commit();
  }

 private:
  using File = std::unique_ptr<NpyWriter>;
  [[nodiscard]] File open(const fs::path& path, std::size_t columns, bool force) const {
    return std::make_unique<NpyWriter>(path, DType::f32, std::vector{samples_, columns}, force);
  }
  [[nodiscard]] Matrix<float> rows(const ModelOutputs& made, const std::string& name,
                                   std::size_t count) const {
    return rows_of_value(made.values.at(name), runner_.fed(count), count, name);
  }

  const ModelRunner& runner_;
  std::size_t samples_;
  std::span<const Wanted> wanted_;
  File logits_, features_;
  std::vector<File> values_;
};

bool is_data_set(const std::string& data) {
  const std::vector<std::string>& known = data_set_names();
  return std::ranges::find(known, data) != known.end();
}

// What --data and --split name.
std::string data_of(const PredictOptions& options) {
  if (options.split.empty()) return options.model.data;
  if (!is_data_set(options.model.data))
    fail(ErrorCode::usage, "--split {}: only data sets are split: {}", options.split,
         or_list(data_set_names()));
  return options.model.data + ":" + options.split;
}

void write_labels(const PredictOptions& options, const SampleSource& source) {
  if (options.labels.empty()) return;
  const std::vector<std::int64_t> labels(source.labels().begin(), source.labels().end());
  write_npy(options.labels,
            {DType::i64, {labels.size()}, std::as_bytes(std::span(labels)), "labels"},
            options.force);
}

struct Told {
  std::vector<std::string> class_names;
  std::string matched, preparation, runtime;
  std::size_t samples = 0, classes = 0;
  nn::Score score;
};

void tell(const PredictOptions& options, std::span<const Wanted> wanted, const Told& told) {
  const nn::Score& score = told.score;
  if (!options.print_json) {
    fmt::print(
        "{}: {} x {} logits; accuracy {:.2f} %, loss {:.4f} on {} images of classes it knows\n",
        options.output.string(), told.samples, told.classes, 100 * score.accuracy, score.loss,
        score.count);
    return;
  }
  nlohmann::json document{{"model", options.model.model},     {"data", options.model.data},
                          {"images", told.samples},           {"classes", told.class_names},
                          {"classes_matched", told.matched},  {"preparation", told.preparation},
                          {"runtime", told.runtime},          {"known_images", score.count},
                          {"accuracy", score.accuracy},       {"loss", score.loss},
                          {"logits", options.output.string()}};
  if (is_data_set(options.model.data))
    document["split"] = options.split.empty() ? "test" : options.split;
  for (const auto& [name, file] : wanted) document["tensors"][name] = file.string();
  fmt::print("{}\n", to_text(document, 2));
}

struct Opened {
  std::unique_ptr<ModelFile> file;
  const OnnxModel& model;  // the same
  std::vector<std::string> class_names;
};

Opened open_onnx(const ModelOptions& options) {
  HeadChoice choice = head_choice(options);
  const std::string names_text = class_names_text(options, choice);
  auto file = ModelFile::open(options.model, choice);
  const auto* const onnx = dynamic_cast<const OnnxModel*>(file.get());
  if (onnx == nullptr)
    fail(ErrorCode::usage, "{}: only .onnx files can be run; export the model to one",
         options.model);
  std::vector<std::string> names = find_class_names(options, names_text, *file, {}).names;
  return {std::move(file), *onnx, std::move(names)};
}

// Our own networks run where they were trained, unless somebody asks for more; so they also get
// their inputs as in training, to the last bit.
std::shared_ptr<const Engine> choose_engine(const OnnxModel& model, bool values,
                                            RunOptions& options) {
  if (options.runtime || values || !nn::network_in(model.model()))
    return onnx_runtime_engine(OnnxRuntime::open(options.runtime));
  if (!options.preparation.scale) options.preparation.scale = static_cast<double>(1.0F / 255.0F);
  return built_in_engine();
}

// Runs the model on everything; returns what there is to tell.
Told run_model(const PredictOptions& options, const Opened& opened,
               std::span<const Wanted> wanted) {
  const OnnxModel& model = opened.model;
  std::vector<std::string> names;
  for (const Wanted& value : wanted) {
    require_value(model.model(), value.name);
    names.push_back(value.name);
  }
  RunOptions given = options.model.run_options();
  const auto source = SampleSource::open(data_of(options));
  Told told;
  told.class_names = opened.class_names;
  told.samples = source->size();
  told.classes = model.head().classes();
  const auto labels = known_labels(*source, told.classes, told.class_names, told.matched);
  const Sample example = source->read(0);
  std::string published;
  if (example.image)
    given.preparation = with_published(given.preparation, *opened.file, model, published);
  if (!published.empty()) remark("note: " + published);
  const auto engine = choose_engine(model, !wanted.empty(), given);
  const ModelRunner runner(*engine, model, given.preparation, example, names);
  told.preparation = runner.preparation();
  told.runtime = engine->describe();

  const std::stop_token stop = stop_on_interrupt();
  Outputs files(options, wanted, runner, source->size(), example);
  std::vector<std::size_t> indices(source->size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  nn::ScoreSum score;
  runner.run_all(
      *source, indices, wanted.empty() ? runner.batch() : runner.fed(runner.batch()),
      available_cores(), [&](std::size_t) { return !wanted.empty(); },
      [&](std::size_t first, const ModelOutputs& batch) {
        files.add(batch);
        for (std::size_t i = 0; i < batch.logits.rows(); ++i)
          if (const auto label = labels[first + i]) score.add(batch.logits.row(i), *label);
      },
      "running the model", stop);
  told.score = score.score();
  opened.file->check_unchanged();
  for (const auto& mapped : source->mapped()) mapped->check_unchanged();
  throw_if_stopped(stop);
  write_labels(options, *source);
  files.commit();
  return told;
}

void run(const PredictOptions& options) {
  const std::vector<Wanted> wanted = wanted_values(options.tensors);
  std::vector<fs::path> outputs{options.output, options.features, options.labels};
  for (const Wanted& value : wanted) outputs.push_back(value.file);
  require_apart(outputs, options.model.named_files());
  for (const fs::path& path : outputs)
    if (!path.empty()) prepare_output(path, options.force);
  (void)options.model.run_options();  // makes sense
  const Opened opened = open_onnx(options.model);
  require_apart(outputs, opened.file->files());
  tell(options, wanted, run_model(options, opened, wanted));
}

}  // namespace

void add_predict(Command& app) {
  auto options = std::make_shared<PredictOptions>();
  Command* command = app.add_subcommand(
      "predict", "Logits, features and inner values of an ONNX model, on any data");
  command->add_option("MODEL", options->model.model, "The model, an .onnx file")->required();
  command
      ->add_option("--data", options->model.data,
                   "What to run it on: a folder with one subfolder of images per class, an .npz "
                   "file with x and y, or a data set: fashion-mnist, mnist, cifar10 or faces")
      ->required();
  command->add_option("--split", options->split, "Of a data set: train or test (default: test)")
      ->one_of({"train", "test"});
  command->add_option("-o,--output", options->output, "Logits, .npy, samples x classes")
      ->required();
  command->add_option("--features", options->features, "Also write what the head reads, .npy");
  command->add_option("--labels", options->labels,
                      "Also write the samples' labels, .npy, in the data's numbering");
  command
      ->add_option("--tensor", options->tensors,
                   "Also write a value of the graph, any node's output, as samples x numbers, "
                   ".npy; repeatable. 'oubli audit --features' takes it as a layer")
      ->type_name("NAME=FILE")
      ->one_at_a_time();
  options->model.add_head(*command);
  options->model.add_inputs(*command);
  command->add_flag("--force", options->force, "Replace what is there");
  command->add_flag("--json", options->print_json, "Print the result as JSON");
  command->footer(
      "Examples:\n"
      "  oubli predict model.onnx --data images/ --mean 0.5 --std 0.5 -o logits.npy --labels "
      "y.npy\n"
      "  oubli predict model.onnx --data x.npz -o z.npy --tensor /conv1/Conv_output_0=conv1.npy "
      "\\\n"
      "      --tensor /layer4/Relu_output_0=layer4.npy\n"
      "  oubli predict model.onnx --data mnist --split train --features f.npy -o z.npy");
  command->callback([options] { run(*options); });
}

}  // namespace oubli::cli
