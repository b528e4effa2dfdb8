#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
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
#include "oubli/inversion/start_image.h"
#include "oubli/inversion/study.h"
#include "oubli/inversion/study_output.h"
#include "oubli/nn/network_file.h"

namespace oubli::cli {
namespace {

namespace fs = std::filesystem;

// What is written into the folder.
constexpr const char* kSheet = "sheet.png";
constexpr const char* kFullSheet = "full.png";
constexpr const char* kGhostSheet = "ghost.png";
constexpr const char* kFigures = "inversion.json";

struct InvertOptions {
  std::string data_set;
  fs::path model;
  fs::path output = "inversion";
  std::size_t people = 0;  // 0: four of the faces, all classes of other data sets
  bool full_size = false;
  fs::path spec;
  std::size_t epochs = 0;
  std::size_t images = 0;
  std::size_t networks = 1;
  std::vector<std::string> forget;
  std::vector<std::string> methods{"naive", "normalization"};
  bool no_retrained = false;
  std::string start = "0.5";
  std::size_t steps = 50;
  double step_size = 0.3;
  double guess = 1;
  std::uint64_t seed = 1;
  unsigned jobs = 0;
  bool force = false;
  bool json = false;
};

bool has_size(const ImageSet& set, const nn::NetworkSpec& spec) {
  return set.channels == spec.channels && set.height == spec.height && set.width == spec.width;
}

// The comparison images of a saved network: as large as it takes them, or half as large.
ImageSet load_for(const nn::NamedNetwork& model, const InvertOptions& options) {
  const nn::NetworkSpec& spec = model.network.spec();
  ImageSet set = load_data_set(options.data_set, Split::train);
  if (!has_size(set, spec) && has_size(half_size(set), spec)) set = half_size(set);
  if (!has_size(set, spec))
    fail(ErrorCode::bad_input, "{}: takes images of {} x {} x {}, those of {} are {} x {} x {}",
         options.model.string(), spec.channels, spec.height, spec.width, options.data_set,
         set.channels, set.height, set.width);
  return classes_named(set, model.class_names, options.images);
}

ImageSet load(const InvertOptions& options) {
  ImageSet set = load_data_set(options.data_set, Split::train);
  const bool faces = options.data_set == "faces";
  if (faces && !options.full_size) set = half_size(set);
  std::size_t classes = options.people;
  if (classes == 0) classes = faces ? 4 : set.classes();
  if (classes > set.classes())
    fail(ErrorCode::usage, "--classes {}: {} has {}", classes, options.data_set, set.classes());
  return classes_named(set, std::span(set.class_names).first(classes), options.images);
}

nn::NetworkSpec spec_for(const InvertOptions& options, const ImageSet& data) {
  const std::array<std::size_t, 3> input{data.channels, data.height, data.width};
  if (!options.spec.empty()) {  // as in `oubli train`: only its layers matter
    nlohmann::json document = nlohmann::json::parse(read_text_file(options.spec), nullptr, false);
    if (document.is_object()) {
      document["input"] = input;
      document["classes"] = data.classes();
    }
    return nn::network_from_json(document, options.spec.string());
  }
  nn::NetworkSpec spec = nn::inversion_network(data.classes());
  spec.channels = data.channels;
  spec.height = data.height;
  spec.width = data.width;
  check(spec);
  return spec;
}

InversionStudy study_of(const InvertOptions& options, const ImageSet& data,
                        const std::optional<nn::NamedNetwork>& model) {
  InversionStudy study;
  study.spec = model ? model->network.spec() : spec_for(options, data);
  // The paper's recipe for the faces; data sets of thousands of images need fewer rounds.
  study.training.epochs = options.epochs != 0 ? options.epochs : data.size() < 1000 ? 150 : 6;
  study.training.seed = options.seed;
  study.networks = options.networks;
  for (const std::string& word : options.forget)
    study.forget.push_back(
        static_cast<std::uint32_t>(class_named(word, data.class_names, data.class_names.size())));
  if (study.forget.empty()) {
    study.forget.resize(data.classes());
    std::iota(study.forget.begin(), study.forget.end(), 0U);
  }
  study.methods.clear();
  for (const std::string& name : options.methods) {
    study.methods.push_back(value_named<Method>(name));
    if (study.methods.back() == Method::custom)
      fail(ErrorCode::usage, "--method custom: needs a target, and there is none here");
  }
  study.retrained = !options.no_retrained;
  study.start = start_image(options.start, options.seed, data);
  study.descent = {.steps = options.steps, .step_size = options.step_size};
  study.guess = options.guess;
  study.workers = options.jobs != 0 ? options.jobs : available_cores();
  study.stop = stop_on_interrupt();
  return study;
}

void run(const InvertOptions& options) {
  const std::vector<fs::path> inputs{options.model, options.spec, options.start};
  for (const char* const name : {kFigures, kSheet, kFullSheet, kGhostSheet}) {
    require_apart(std::vector{options.output / name}, inputs);
    if (fs::exists(options.output)) prepare_output(options.output / name, options.force);
  }
  std::optional<nn::NamedNetwork> model;
  if (!options.model.empty()) model = nn::load_network(options.model);
  const ImageSet data = model ? load_for(*model, options) : load(options);
  const InversionStudy study = study_of(options, data, model);
  const InversionResult result = run_inversion(study, data, model ? &model->network : nullptr);
  const auto summaries = summarise(result);

  fs::create_directories(options.output);
  const std::string shown = data.class_names[study.forget.front()];
  const std::vector<NamedSheet> sheets{
      {kSheet, fmt::format("Every class reconstructed, before and after {} was forgotten", shown),
       fmt::format(
           "Columns: classes {}. Rows: a training image, the reconstruction before deletion, and "
           "after each method; the forgotten class {} is framed.",
           fmt::join(data.class_names, ", "), shown)},
      {kFullSheet, "Each class forgotten in turn",
       "One block of columns per method. Rows: a training image, the reconstruction before "
       "deletion, "
       "then one row per forgotten class, framed where it is the class reconstructed."},
      {kGhostSheet, "The forgotten class by the ghost logit",
       "Columns: the class that was forgotten and is reconstructed from the mean of the remaining "
       "logits. Rows: a training image, then one row per method."}};
  const std::size_t scale = std::max<std::size_t>(1, 112 / data.height);
  write_file(options.output / sheets[0].file,
             to_png(figure_sheet(result, data, study.forget.front()), scale));
  write_file(options.output / sheets[1].file, to_png(full_sheet(result, data), scale));
  write_file(options.output / sheets[2].file, to_png(ghost_sheet(result, data), scale));
  nlohmann::json document = to_json(study, data, result, summaries, sheets);
  if (model) {
    document["model"] = options.model.filename().string();
    document.erase("epochs");
  }
  write_file(options.output / kFigures, to_text(document, 1) + "\n");
  if (options.json)
    fmt::print("{}\n", to_text(document, -1));
  else
    fmt::print("{}", to_table(summaries).text());
  say(fmt::format("pictures and figures: {}", options.output.string()));
}

// What is attacked.
void add_network_options(Command& command, InvertOptions& options) {
  command.add_option("DATA", options.data_set, "faces, mnist, fashion-mnist or cifar10")
      ->required();
  command.add_option("-o,--output", options.output, "Folder for the pictures and inversion.json")
      ->capture_default_str();
  Option* model =
      command
          .add_option("--model", options.model,
                      "Attack this network, an ONNX file that 'oubli train' wrote, instead of "
                      "training some; its classes' images come from DATA")
          ->existing_file();
  command
      .add_option("--classes", options.people,
                  "Use the first N classes (default: 4 of the faces, else all)")
      ->range(1)
      ->excludes(model);
  command.add_option("--images", options.images, "At most N images per class (default: all)")
      ->range(1);
  command.add_flag("--full-size", options.full_size, "Faces at 112 x 92 instead of 56 x 46")
      ->excludes(model);
  command
      .add_option("--network", options.spec,
                  "A network's JSON (default: 1000 and 300 sigmoid units)")
      ->existing_file()
      ->excludes(model);
  command
      .add_option("--epochs", options.epochs, "Of training (default: 150, 6 for large data sets)")
      ->range(1, 1'000'000)
      ->excludes(model);
  command.add_option("--networks", options.networks, "How many to train and attack")
      ->capture_default_str()
      ->range(1, 100'000)
      ->excludes(model);
}

void add_forget_options(Command& command, InvertOptions& options) {
  command.add_option("--class", options.forget,
                     "Forget this class, by name or number; repeat for several, each on its own "
                     "(default: each in turn)");
  command.add_option("--method", options.methods, "How to forget; repeatable")
      ->capture_default_str();
  command.add_flag("--no-retrained", options.no_retrained,
                   "Do not retrain networks without the class for comparison");
}

void add_descent_options(Command& command, InvertOptions& options) {
  command
      .add_option("--start", options.start,
                  "Start image: a grey level, noise, mean, image:N or a file (PNG, PGM, JPEG)")
      ->capture_default_str();
  command.add_option("--steps", options.steps, "Steps of the descent")
      ->range(1, 1'000'000)
      ->capture_default_str();
  command.add_option("--step-size", options.step_size, "Times the gradient")->capture_default_str();
  command.add_option("--guess", options.guess, "The logit put where an output is missing")
      ->capture_default_str();
}

}  // namespace

void add_invert(Command& app) {
  auto options = std::make_shared<InvertOptions>();
  Command* command = app.add_subcommand(
      "invert", "Reconstruct classes from networks before and after they were forgotten");
  add_network_options(*command, *options);
  add_forget_options(*command, *options);
  add_descent_options(*command, *options);
  command->add_option("--seed", options->seed, "Of everything random")->capture_default_str();
  command->add_option("--jobs", options->jobs, "Threads (default: one per core)")->range(1, 1024);
  command->add_flag("--force", options->force, "Replace what is in the folder");
  command->add_flag("--json", options->json, "Print inversion.json on stdout");
  command->footer(
      "Examples:\n"
      "  oubli invert faces --networks 10 -o inversion\n"
      "  oubli invert faces --full-size --class s1 -o inversion\n"
      "  oubli invert fashion-mnist --images 500 -o inversion\n"
      "  oubli invert fashion-mnist --model model.onnx --class bag -o inversion\n"
      "  oubli invert faces --start somebody.pgm -o inversion\n"
      "  oubli report inversion -o report.html");
  command->callback([options] { run(*options); });
}

}  // namespace oubli::cli
