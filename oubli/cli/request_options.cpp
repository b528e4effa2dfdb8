#include "oubli/cli/request_options.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "oubli/array/array_file.h"
#include "oubli/base/names.h"
#include "oubli/cli/terminal.h"
#include "oubli/forget/curvature.h"
#include "oubli/model/name_agreement.h"

namespace oubli::cli {

Matrix<double> target_in(const TensorView& given, std::size_t forgotten, std::size_t retained) {
  TensorView view = given;
  if (view.rank() == 1 && forgotten == 1) view.shape.insert(view.shape.begin(), 1);
  if (!is_float(view.dtype) || view.shape != std::vector{forgotten, retained})
    fail(ErrorCode::bad_input,
         "{}: {}, wanted one row of {} target logits for each of {} forgotten classes", view.what,
         describe(given), retained, forgotten);
  Matrix<double> target = to_matrix(view);
  require_finite(MatrixView<const double>(target), view.what);
  return target;
}

Matrix<double> read_target(const std::string& where, std::size_t forgotten, std::size_t retained) {
  return target_in(load_array(where), forgotten, retained);
}

void RequestOptions::add_request(Command& command) {
  command
      .add_option("model", model,
                  "The model: .onnx, .pth, .safetensors, .npz, .h5, .keras, .pkl, ...")
      ->required();
  command
      .add_option("--class", classes,
                  "Class to forget, by name or index; --class A --class B for several")
      ->one_at_a_time()  // else it would take the model's name for a class, too
      ->required();
  command
      .add_option("--method", method,
                  "Where the forgotten class's logits go: " + or_list(all_names<Method>()) +
                      (takes_curvature ? "; or curvature (experimental)" : ""))
      ->capture_default_str();
  command
      .add_option("--solver", solver,
                  "How the correction is solved for: " + or_list(all_names<Solver>()))
      ->capture_default_str();
  command.add_flag("--float-head", float_head,
                   "A quantised last layer of an .onnx file becomes one of floats");
  command.add_option("--target", target,
                     "Method custom: target logits z, forgotten x retained classes, as .npy; both "
                     "in ascending order of their index");
  command.add_option("--explain", explain,
                     fmt::format("Method explained: how much retained data must use a direction of "
                                 "the features for it to stay, in shares of the mean (default {})",
                                 kExplain));
  add_head(command);
  add_means(command);
  add_data(command);
  add_run(command);
}

bool asks_for_curvature(const RequestOptions& options) { return options.method == kCurvature; }

namespace {

// What is for filtrations, or for inputs made in another way than training had them.
void check_words_of_curvature(const RequestOptions& options) {
  if (!options.takes_curvature)
    fail(ErrorCode::usage,
         "--method curvature (experimental) is carried out by 'oubli forget' alone: it is no "
         "filtration, whose head could be shown without the images");
  for (const auto& [option, given] :
       {std::pair("--solver", options.solver != "auto"),
        std::pair("--explain", options.explain.has_value()),
        std::pair("--target", !options.target.empty()), std::pair("--keep-seed", options.keep_seed),
        std::pair("--means", !options.means.empty()),
        std::pair("--features", !options.features.empty()),
        std::pair("--logits", !options.logits.empty()),
        std::pair("--samples", options.samples.has_value()),
        std::pair("--float-head", options.float_head),
        std::pair("--run-with", !options.run_with.empty())})
    if (given) fail(ErrorCode::usage, "{}: not with --method curvature", option);
  if (options.data.empty())
    fail(ErrorCode::usage,
         "--method curvature needs the images that the model was trained on: --data, as in --data "
         "mnist:train");
}

}  // namespace

void check_words(const RequestOptions& options) {
  if (asks_for_curvature(options)) return check_words_of_curvature(options);
  const auto method = value_named<Method>(options.method);
  (void)value_named<Solver>(options.solver);
  if (options.keep_seed && method != Method::randomization)
    fail(ErrorCode::usage, "--keep-seed: method {} draws nothing whose seed could be kept",
         options.method);
  if (options.explain) {
    if (method != Method::explained)
      fail(ErrorCode::usage, "--explain and --method explained go together");
    check_share(*options.explain);
  }
  if ((method == Method::custom) != !options.target.empty())
    fail(ErrorCode::usage, "--method custom and --target FILE go together");
}

ForgetRequest make_request(const RequestOptions& options, const LoadedModel& loaded) {
  check_words(options);
  const std::size_t classes = loaded.model->head().classes();
  ForgetRequest request;
  request.class_names = loaded.class_names;
  for (const std::string& word : options.classes) {
    check_unambiguous(word, loaded.class_names);
    request.forget.push_back(class_named(word, loaded.class_names, classes));
  }
  const bool in_order = std::ranges::is_sorted(request.forget);
  std::ranges::sort(request.forget);
  // Where the model or the means have names of their own: the wrong class must not go.
  const auto compare = [&](std::span<const std::string> own, std::span<const std::string> given,
                           const std::string& what) {
    for (const std::string& warning : check_names_agree(own, given, request.forget, what))
      remark("warning: " + warning);
  };
  if (const auto own = loaded.model->class_names())
    compare(*own, loaded.class_names, options.class_names);
  if (loaded.inputs.means)
    compare(loaded.class_names, loaded.inputs.means->class_names, options.means);
  const ClassSplit split = split_for_deletion(classes, request.forget);
  loaded.model->check_enough_left(split.retained.size());
  request.curvature = asks_for_curvature(options);
  if (!request.curvature) request.method = value_named<Method>(options.method);
  request.solver = value_named<Solver>(options.solver);
  request.seed = options.seed;
  request.explain = options.explain.value_or(kExplain);
  request.keep_seed = options.keep_seed;
  request.samples = loaded.samples;
  request.note = options.note;
  request.allow_nonlinear_tail = options.allow_nonlinear_tail;
  request.ignore_accuracy = options.ignore_accuracy;
  // Rows must not go to other classes than somebody thought.
  if (request.method == Method::custom && !in_order)
    fail(ErrorCode::usage,
         "--target: its rows are for the forgotten classes in ascending order of their index; name "
         "them in that order: {}",
         fmt::join(request.forget, ", "));
  if (request.method == Method::custom)
    request.custom_target =
        read_target(options.target, request.forget.size(), split.retained.size());
  return request;
}

}  // namespace oubli::cli
