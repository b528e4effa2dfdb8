#include "oubli/forget/forget.h"

#include <fmt/ranges.h>
#include <malloc.h>

#include <algorithm>
#include <utility>

#include "oubli/array/row_blocks.h"
#include "oubli/base/beside.h"
#include "oubli/base/digest.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/names.h"
#include "oubli/base/workers.h"
#include "oubli/forget/sample_confusion.h"

namespace oubli {
namespace {

// Some of the data for measuring the gain; enough for a standard deviation to two digits.
constexpr std::size_t kGainSamples = 4096;

void check_means_fit(const StoredMeans& means, const HeadView& head, bool needed,
                     std::vector<std::string>& warnings) {
  if (means.classes() != head.classes())
    fail(ErrorCode::bad_input, "{}: means of {} classes, the model has {}", means.means.what,
         means.classes(), head.classes());
  if (means.space == Space::features && means.means.shape[1] != head.features())
    fail(ErrorCode::bad_input, "{}: means of {} features, the model has {}", means.means.what,
         means.means.shape[1], head.features());
  if (const auto empty = std::ranges::find(means.counts, 0U); needed && empty != means.counts.end())
    fail(ErrorCode::bad_input, "{}: class {} has no mean: there was no sample of it",
         means.means.what, empty - means.counts.begin());
  for_each_row_block(means.means, available_cores(),
                     [](std::size_t, MatrixView<const double>) {});  // finite, or says where not
  if (means.feature_scatter.rank() == 2)
    for_each_row_block(means.feature_scatter, available_cores(),
                       [&](std::size_t, MatrixView<const double> block) {
                         if (std::ranges::any_of(block.flat(), [](double v) { return v < 0; }))
                           fail(ErrorCode::bad_input, "{}: negative, wanted sums of squares",
                                means.feature_scatter.what);
                       });
  if (means.head_sha256.empty() || means.head_sha256 == head_digest(head)) return;
  // Features do not depend on the head, logits do.
  if (means.space == Space::logits)
    fail(ErrorCode::bad_input,
         "{}: these are mean logits of another head than the model's; make new ones with 'oubli "
         "means'",
         means.means.what);
  warnings.push_back(fmt::format(
      "{}: gathered for another head than the model's; right only if its features are the same",
      means.means.what));
}

// What is forgotten must not be recoverable from what is written [SECURITY.md]: where it is.
void add_warnings_of_recovery(const ForgetRequest& request, ForgetPlan& plan, bool shift_counts) {
  if (shift_counts && plan.filtration.rows_summed_to_zero())
    plan.warnings.push_back(
        "the rows of the old head sum to zero, so that a forgotten one is minus the sum of the "
        "others, and a non-linear step follows the logits, so that they are not centred again; "
        "--allow-nonlinear-tail centres them");
  constexpr std::uint64_t kGuessable = std::uint64_t{1} << 32;  // minutes of trying
  if (request.method == Method::randomization && (request.keep_seed || request.seed < kGuessable))
    plan.warnings.push_back(
        std::string("whoever knows the seed knows where the forgotten mean went; ") +
        (request.keep_seed ? "the receipt will hold it"
                           : "one below 2^32 can be guessed: take one at random, as from 'od -An "
                             "-N8 -tu8 /dev/urandom'"));
}

void check_method_fits(const ModelFile& model, const ForgetRequest& request) {
  if (model.shift_shows() && request.method != Method::naive && !request.allow_nonlinear_tail)
    fail(ErrorCode::unfilterable,
         "{}: a non-linear step follows the logits, so that method {} would change what the model "
         "outputs for retained classes; use --method naive, or say --allow-nonlinear-tail",
         model.path().string(), name_of(request.method));
}

// The class means that are given, or those of the data.
void plan_means(const ForgetInputs& inputs, const ForgetRequest& request, ForgetPlan& plan) {
  const HeadView& head = inputs.model->head();
  const bool needs_means = needs_class_means(request.method);
  plan.means = inputs.means;
  if (plan.means) {
    check_means_fit(*plan.means, head, needs_means, plan.warnings);
  } else if (inputs.data) {
    const auto chosen = choose_samples(inputs.data->labels, head.classes(), request.samples);
    plan.means = store_means(
        inputs.data->space,
        gather_means(*inputs.data, head.classes(), chosen, needs_means, request.class_names),
        request.class_names, "");
    const auto label = [&](std::size_t j) {  // receipts do not name forgotten classes
      const bool forgotten = std::ranges::binary_search(request.forget, j);
      return forgotten ? std::to_string(j) : class_label(j, request.class_names);
    };
    if (auto warning = warning_of_few_samples(plan.means->counts, request.samples, label))
      plan.warnings.push_back(std::move(*warning));
  }
  // Data beside stored means is judged as well.
  if (inputs.data && inputs.run == nullptr && !request.ignore_accuracy)
    require_aligned(confusion_of(head, *inputs.data, request.forget),
                    leanings_of(head, *inputs.data, request.forget), request.class_names, "");
}

Calibration calibration_of(const StoredMeans& means, const std::optional<CalibrationData>& data) {
  Calibration calibration{.space = means.space,
                          .means = means.means,
                          .within_variance = means.within_variance(),
                          .counts = means.counts,
                          .feature_scatter = means.feature_scatter};
  if (data && data->space == means.space) {
    calibration.sample = data->values;
    calibration.sample_labels = data->labels;
    calibration.sample_step =
        std::max<std::size_t>(1, (data->samples() + kGainSamples - 1) / kGainSamples);
  }
  return calibration;
}

void check_new_head(const HeadView& head, ForgetPlan& plan) {
  const StoredMeans* const means = plan.means ? &*plan.means : nullptr;
  plan.head_check = check_head(head, plan.new_head_view(head), plan.filtration, means);
  if (const HeadRounding rounding = plan.rounding(); !rounding.weight_steps.empty())
    plan.rounding_check =
        check_rounding(plan.new_head_view(head), plan.written_head_view(head), rounding, means);
}

void add_warnings(const ForgetRequest& request, ForgetPlan& plan, bool shift_counts) {
  std::ranges::copy(plan.filtration.warnings, std::back_inserter(plan.warnings));
  add_warnings_of_recovery(request, plan, shift_counts);
  if (plan.new_head.bias_added)
    plan.warnings.push_back("the head had no bias; the new one has, because the solver needs it");
  if (plan.means && plan.means->space == Space::logits && !plan.filtration.on_logits)
    plan.warnings.push_back("no means file can follow: the filter works on features");
  else if (plan.means && !plan.has_means_to_keep())
    plan.warnings.push_back("no means file follows: a retained class has no samples");
}

// Everything in a plan but the digests.
void work_out(const ForgetInputs& inputs, const ForgetRequest& request, ForgetPlan& plan,
              const std::stop_token& stop) {
  check_method_fits(*inputs.model, request);
  if (!request.ignore_accuracy && inputs.run != nullptr)
    inputs.run->check_alignment(request.forget, request.class_names);
  plan_means(inputs, request, plan);
  throw_if_stopped(stop);

  Target target{.method = request.method,
                .seed = request.seed,
                .model = 0,
                .custom = {},
                .explain = request.explain,
                .explain_from = request.explain_from};
  if (request.custom_target) target.custom = request.custom_target->view();
  std::optional<Calibration> calibration;
  if (needs_class_means(request.method) && plan.means)
    calibration = calibration_of(*plan.means, inputs.data);
  const bool shift_counts = inputs.model->shift_shows() && !request.allow_nonlinear_tail;
  const Centring centring =
      shift_counts && request.centring == Centring::by_head ? Centring::never : request.centring;
  const HeadView& head = inputs.model->head();
  plan.filtration =
      plan_filtration(head, calibration, request.forget, target, request.solver, centring);
  throw_if_stopped(stop);
  plan.new_head = plan.filtration.filter.apply(head);
  plan.stored_head = inputs.model->stored_as(plan.new_head, plan.split().retained);
  check_new_head(head, plan);
  add_warnings(request, plan, shift_counts);
}

HeadView view_of(const NewHead& new_head, const HeadView& old_head) {
  HeadView view = old_head;
  view.weights = new_head.weights.view("the new weights");
  view.bias.reset();
  if (new_head.bias) view.bias = new_head.bias->view("the new bias");
  return view;
}

std::filesystem::path with_suffix(std::filesystem::path path, const char* suffix) {
  path += suffix;
  return path;
}

}  // namespace

HeadView ForgetPlan::new_head_view(const HeadView& old_head) const {
  return view_of(new_head, old_head);
}

HeadView ForgetPlan::written_head_view(const HeadView& old_head) const {
  return view_of(written_head(), old_head);
}

bool ForgetPlan::has_means_to_keep() const {
  if (!means || (means->space == Space::logits && !filtration.on_logits)) return false;
  return std::ranges::none_of(split().retained,
                              [&](std::size_t j) { return means->counts[j] == 0; });
}

InputDigests digests_of(const ForgetInputs& inputs, const std::stop_token& stop) {
  InputDigests digests{inputs.model_files, inputs.means_files, {}, {}};
  if (digests.model.empty())
    for (const auto& path : inputs.model->files())
      digests.model.push_back(file_named("model", path));
  const std::span<const std::byte> model_bytes = inputs.model->bytes();
  if (inputs.data) digests.data = inputs.data->files;
  if (inputs.means && inputs.means->means.file)
    for (FileDigest& file : digests.means) file.content = inputs.means->means.file->bytes();
  std::vector<FileDigest*> unread;
  for (std::vector<FileDigest>* const files : {&digests.model, &digests.means, &digests.data})
    for (FileDigest& file : *files)
      if (file.sha256.empty() && !file.path.empty()) unread.push_back(&file);
  // A core is left to the caller's other work.
  const auto digest = [&](std::size_t task, unsigned) {
    if (task == unread.size()) {
      digests.head = head_digest(inputs.model->head());
      return;
    }
    FileDigest& file = *unread[task];
    if (!model_bytes.empty() && file.path == inputs.model->path()) {
      file.sha256 = sha256_of_mapped(model_bytes, digests.model_trail);
    } else {
      file.sha256 = file.content.empty() ? sha256_file(file.path) : sha256_of_mapped(file.content);
    }
  };
  run_tasks(unread.size() + 1, available_cores() - 1, digest, stop);
  return digests;
}

ForgetPlan plan_forget(const ForgetInputs& inputs, const ForgetRequest& request,
                       const std::stop_token& stop) {
  ForgetPlan plan;
  // The files are read for their digests while the filter is solved for.
  run_beside([&] { work_out(inputs, request, plan, stop); },
             [&] { plan.digests = digests_of(inputs, stop); });
  throw_if_stopped(stop);
  if (plan.means && !inputs.means) plan.means->head_sha256 = plan.digests.head;
#ifdef __GLIBC__
  ::malloc_trim(0);  // what the solvers used must not add to what writing takes
#endif
  return plan;
}

ForgetOutcome look_for_leaks(const ForgetInputs& inputs, const ForgetRequest& request,
                             const ForgetPlan& plan) {
  ForgetOutcome outcome;
  if (!inputs.data) return outcome;
  const HeadView& head = inputs.model->head();
  outcome.leaks =
      check_leaks(head, plan.working_head_view(head), plan.filtration, *inputs.data, request.seed);
  return outcome;
}

std::filesystem::path receipt_path(const std::filesystem::path& model) {
  return with_suffix(model, ".receipt.json");
}
std::filesystem::path means_path(const std::filesystem::path& model) {
  return with_suffix(model, ".means.npz");
}
std::filesystem::path class_names_path(const std::filesystem::path& model) {
  return with_suffix(model, ".class-names.txt");
}

}  // namespace oubli
