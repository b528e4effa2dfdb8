#include "oubli/cli/model_options.h"

#include <algorithm>

#include "oubli/array/array_file.h"
#include "oubli/base/count.h"
#include "oubli/base/error.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/names.h"
#include "oubli/base/output.h"
#include "oubli/cli/class_names.h"
#include "oubli/cli/terminal.h"

namespace oubli::cli {
namespace {

// Where the values and the labels are: named one by one, or together in one .npz file.
struct DataArrays {
  Space space = Space::features;
  std::string values;
  std::string labels;
};

DataArrays find_arrays(const ModelOptions& options) {
  if (!options.features.empty() && !options.logits.empty())
    fail(ErrorCode::usage, "--features and --logits: give one of them");
  DataArrays arrays;
  std::string labels = options.labels;
  if (!options.data.empty()) {
    if (!options.features.empty() || !options.logits.empty())
      fail(ErrorCode::usage,
           "--data {}: holds features or logits; leave out --features and --logits", options.data);
    const auto file = ArrayFile::open(options.data);
    for (const char* const kind : {"features", "logits"})
      if (arrays.values.empty() && file->find(kind) != nullptr) {
        arrays.space = kind == std::string("logits") ? Space::logits : Space::features;
        arrays.values = options.data + ":" + kind;
      }
    if (arrays.values.empty())
      fail(ErrorCode::bad_input, "{}: holds no array named features or logits", options.data);
    if (!labels.empty() && file->find("labels") != nullptr)
      fail(ErrorCode::usage, "--data {}: holds labels, too; leave out --labels", options.data);
    if (labels.empty()) labels = options.data + ":" + file->at("labels").name;
  } else {
    arrays.space = options.logits.empty() ? Space::features : Space::logits;
    arrays.values = options.logits.empty() ? options.features : options.logits;
  }
  if (labels.empty())
    fail(ErrorCode::usage, "{}: whose samples are these? --labels is missing", arrays.values);
  arrays.labels = labels;
  return arrays;
}

std::size_t line_count(const std::string& text) {
  const auto ends = static_cast<std::size_t>(std::ranges::count(text, '\n'));
  return ends + (text.empty() || text.ends_with('\n') ? 0 : 1);
}

void remark_on_left_out(const CalibrationData& data) {
  if (data.left_out == 0) return;
  remark(
      fmt::format("note: {} of {} rows have no label (-100, of positions also -1) and are left out",
                  data.left_out, data.left_out + data.samples()));
}

}  // namespace

void ModelOptions::add_head(Command& command) {
  command.add_option(
      "--head", head,
      "Of an .onnx file with several last layers: a node, or an output of the graph");
  command.add_option("--weights", weights,
                     "Name of the head's weight tensor, if not found by itself");
  command.add_option("--bias", bias, "Name of the head's bias tensor");
  command.add_flag("--no-bias", no_bias, "The head has no bias");
  command.add_flag("--transposed", transposed, "The weights are features x classes");
  command.add_flag("--rows-are-classes", rows_are_classes, "The weights are classes x features");
  command.add_option("--class-names", class_names, "Text file with one class name per line");
}

void ModelOptions::add_data(Command& command) {
  command.add_option("--features", features,
                     "Inputs of the head, samples x features: FILE.npy or FILE.npz:NAME");
  command.add_option("--logits", logits, "Outputs of the head, samples x classes");
  command.add_option("--labels", labels, "Class of each sample, in the model's numbering");
  command.add_option("--data", data,
                     "Inputs to run an .onnx model on: a folder with one subfolder of images per "
                     "class, an .npz file with x and y, or a data set's name; or an .npz file with "
                     "features (or logits) and labels");
  command
      .add_option("--samples", samples, "Use S samples of each class for its mean, the first ones")
      ->type_name("S")
      ->range(1);
  command.add_flag("--random-samples", random_samples, "With --samples: drawn by --seed");
  command.add_option("--seed", seed, "Seed of everything random")->capture_default_str();
}

void ModelOptions::add_means(Command& command) {
  command.add_option("--means", means,
                     "Means file ('oubli means' makes one); then no data is needed");
}

Command* ModelOptions::add_inputs(Command& command) {
  auto* const group = command.add_option_group("inputs", "How inputs are made from --data");
  group->add_option("--scale", run.preparation.scale,
                    "Pixels 0..255 are multiplied by this (default: 1/255 for float inputs)");
  group
      ->add_option("--mean", run.preparation.mean, "Then subtracted: one value, or one per channel")
      ->delimiter(',');
  group
      ->add_option("--std", run.preparation.standard,
                   "Then divided by: one value, or one per channel")
      ->delimiter(',');
  group->add_option("--layout", layout, "nchw or nhwc, if the model's input does not show it")
      ->one_of({"nchw", "nhwc"});
  group->add_option("--size", size, "HEIGHTxWIDTH, if the model takes any size");
  group->add_flag("--grey", grey, "One channel, if the model's input does not show it");
  group->add_flag("--colour", colour, "Three channels, likewise");
  group->add_option("--runtime", runtime,
                    "ONNX Runtime's library (default: $OUBLI_ONNXRUNTIME, the system's, "
                    "'oubli get-runtime')");
  return group;
}

void ModelOptions::add_run(Command& command) {
  auto* const group = add_inputs(command);
  group->add_option("--run-with", run_with,
                    "The same model as an .onnx file, to be run in its place: for formats that "
                    "cannot be run here");
}

RunOptions ModelOptions::run_options() const {
  RunOptions result = run;
  result.data = data;
  if (!runtime.empty()) result.runtime = runtime;
  if (!run_with.empty()) result.run_with = run_with;
  if (!layout.empty()) result.preparation.channels_last = layout == "nhwc";
  if (grey && colour) fail(ErrorCode::usage, "--grey and --colour contradict each other");
  if (grey || colour) result.preparation.colour = colour;
  if (!size.empty()) {
    const std::size_t cross = std::min(size.find('x'), size.size() - 1);
    const auto height = parse_count(std::string_view(size).substr(0, cross), 1, 65536);
    const auto width = parse_count(std::string_view(size).substr(cross + 1), 1, 65536);
    if (!height || !width)
      fail(ErrorCode::usage, "--size {}: wanted HEIGHTxWIDTH, e.g. 224x224", size);
    result.preparation.size = {*height, *width};
  }
  return result;
}

std::string ModelOptions::given_run_option() const {
  const PreparationOptions& made = run.preparation;
  for (const auto& [name, given] :
       {std::pair("--scale", made.scale.has_value()), std::pair("--mean", !made.mean.empty()),
        std::pair("--std", !made.standard.empty()), std::pair("--layout", !layout.empty()),
        std::pair("--size", !size.empty()), std::pair("--grey", grey),
        std::pair("--colour", colour), std::pair("--runtime", !runtime.empty()),
        std::pair("--run-with", !run_with.empty())})
    if (given) return name;
  return {};
}

void ModelOptions::drop_data() {
  for (std::string* const given :
       {&means, &data, &features, &logits, &labels, &runtime, &run_with, &layout, &size})
    given->clear();
  run = {};
  grey = colour = false;
}

bool ModelOptions::has_inputs() const {
  if (data.empty()) return false;
  if (!std::filesystem::is_regular_file(data)) return true;
  const auto file = ArrayFile::open(data);
  return file->find("x") != nullptr && file->find("features") == nullptr &&
         file->find("logits") == nullptr;
}

std::vector<std::filesystem::path> ModelOptions::named_files() const {
  std::vector<std::filesystem::path> files;
  for (const std::string& word :
       {model, class_names, means, features, logits, labels, data, run_with}) {
    if (word.empty()) continue;
    files.emplace_back(split_place(word).file);
  }
  std::error_code unreadable;  // is told by whoever reads it
  if (!data.empty() && std::filesystem::is_directory(data, unreadable))
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             data, std::filesystem::directory_options::skip_permission_denied, unreadable))
      if (entry.is_symlink(unreadable)) files.push_back(entry.path());
  return files;
}

bool ModelOptions::has_data() const {
  return !features.empty() || !logits.empty() || !data.empty();
}

HeadChoice head_choice(const ModelOptions& options) {
  if (options.transposed && options.rows_are_classes)
    fail(ErrorCode::usage, "--transposed and --rows-are-classes contradict each other");
  if (options.bias && options.no_bias)
    fail(ErrorCode::usage, "--bias and --no-bias contradict each other");
  HeadChoice choice;
  choice.head = options.head;
  choice.weights = options.weights;
  choice.float_head = options.float_head;
  choice.bias = options.no_bias ? std::optional<std::string>("") : options.bias;
  if (options.transposed || options.rows_are_classes) choice.transposed = options.transposed;
  return choice;
}

std::string class_names_text(const ModelOptions& options, HeadChoice& choice) {
  if (options.class_names.empty()) return {};
  std::string text = read_text_file(options.class_names);
  choice.classes = line_count(text);
  return text;
}

LoadedModel open_model(const ModelOptions& options) {
  if (!options.has_data() && !options.labels.empty())
    fail(ErrorCode::usage, "--labels: labels of what? --features or --logits is missing");
  if (!options.has_data() && (options.samples || options.random_samples))
    fail(ErrorCode::usage, "--samples chooses among data, and none is given");
  if (!options.means.empty() && options.samples)
    fail(ErrorCode::usage,
         "--samples chooses what class means are made from, and --means gives them");
  if (options.random_samples && !options.samples)
    fail(ErrorCode::usage, "--random-samples: how many? --samples S is missing");
  (void)options.run_options();  // makes sense
  const bool runs = options.has_inputs();
  if (const std::string option = options.given_run_option(); !runs && !option.empty())
    fail(ErrorCode::usage, "{} is for inputs that the model is run on, and --data gives none",
         option);

  LoadedModel loaded;
  HeadChoice choice = head_choice(options);
  const std::string names_text = class_names_text(options, choice);
  if (!options.means.empty()) {
    loaded.inputs.means = read_means(options.means);
    loaded.inputs.means_files.push_back(file_named("means", options.means));
    choice.classes = loaded.inputs.means->classes();
    if (loaded.inputs.means->space == Space::features)
      choice.features = loaded.inputs.means->means.shape[1];
  }
  std::optional<DataArrays> arrays;
  if (runs && (!options.features.empty() || !options.logits.empty() || !options.labels.empty()))
    fail(ErrorCode::usage, "--data {}: inputs come with their labels; leave out the other arrays",
         options.data);
  if (options.has_data() && !runs) {
    arrays = find_arrays(options);
    const std::vector<std::size_t> shape = array_info(arrays->values).shape;
    if (shape.size() >= 2)
      (arrays->space == Space::logits ? choice.classes : choice.features) = shape.back();
  }
  loaded.model = ModelFile::open(options.model, choice);
  loaded.inputs.model = loaded.model.get();
  const std::size_t classes = loaded.model->head().classes();
  if (arrays)
    loaded.inputs.data = load_calibration(arrays->space, arrays->values, arrays->labels, classes,
                                          loaded.model->head().features());
  if (loaded.inputs.data) remark_on_left_out(*loaded.inputs.data);
  using From = NamesFound::From;
  NamesFound names = find_class_names(options, names_text, *loaded.model, loaded.inputs);
  loaded.class_names = std::move(names.names);
  loaded.names_of_folders = names.from == From::folders;
  loaded.names_need_file =
      names.from == From::option || names.from == From::file || names.from == From::folders;
  if (runs) loaded.leave_out = forgotten_in_data(options, *loaded.model, loaded.class_names);
  if (runs && std::filesystem::exists(means_path(options.model)))
    remark(fmt::format("note: {0} holds its class means: with --means {0} no data is needed",
                       means_path(options.model).string()));
  loaded.stop = StopScope::current();
  loaded.samples = {options.samples, options.random_samples, options.seed};
  return loaded;
}

void run_on_data(LoadedModel& loaded, const ModelOptions& options) {
  if (!options.has_inputs()) return;
  loaded.stop = stop_on_interrupt();
  RunOptions run = options.run_options();
  run.leave_out = loaded.leave_out;
  // Names that the data gave say nothing about the model's order.
  const std::vector<std::string> names =
      loaded.names_of_folders ? std::vector<std::string>() : loaded.class_names;
  loaded.run = std::make_unique<CalibrationRun>(*loaded.model, run, names, loaded.stop);
  if (const std::string& said = loaded.run->report().published; !said.empty())
    remark("note: " + said);
  const RunReport& report = loaded.run->report();
  if (const std::string said = describe(report.changes, report.samples); !said.empty())
    remark("note: " + said);
  loaded.inputs.data = loaded.run->calibration();
  remark_on_left_out(*loaded.inputs.data);
  loaded.inputs.run = loaded.run.get();
}

LoadedModel load(const ModelOptions& options) {
  LoadedModel loaded = open_model(options);
  run_on_data(loaded, options);
  return loaded;
}

}  // namespace oubli::cli
