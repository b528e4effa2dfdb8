#include "python/src/request.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "oubli/base/error.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/json.h"
#include "oubli/base/names.h"
#include "oubli/base/progress.h"
#include "oubli/cli/forget_text.h"
#include "oubli/cli/request_options.h"
#include "oubli/filtration/explained.h"
#include "oubli/forget/forget.h"
#include "oubli/forget/receipt.h"
#include "oubli/model/name_agreement.h"

namespace oubli::python {
namespace {

// A head in somebody's memory as a model that no file holds: requests on it are worked out by the
// code that works them out for files.
class ArraysModel final : public ModelFile {
 public:
  ArraysModel(HeadView head, bool shift_shows)
      : ModelFile("the arrays"), head_(std::move(head)), shift_shows_(shift_shows) {
    validate(head_);
    require_finite(head_);
  }
  [[nodiscard]] std::string_view format() const override { return "arrays"; }
  [[nodiscard]] const HeadView& head() const override { return head_; }
  [[nodiscard]] std::string head_name() const override { return head_.bias ? "W, b" : "W"; }
  [[nodiscard]] std::optional<std::vector<std::string>> class_names() const override { return {}; }
  [[nodiscard]] std::vector<Finding> findings() const override { return {}; }
  [[nodiscard]] bool shift_shows() const override { return shift_shows_; }
  [[nodiscard]] std::vector<std::filesystem::path> files() const override { return {}; }
  void check_unchanged() const override {}
  [[nodiscard]] StagedModel stage(const NewHead&, std::span<const std::size_t>,
                                  const std::filesystem::path&, bool) const override {
    throw std::logic_error("arrays are not written to files");
  }

 private:
  HeadView head_;
  bool shift_shows_;
};

HeadView head_of(const TensorView& weights, const TensorView* bias, bool transposed) {
  HeadView head{.weights = weights, .transposed = transposed};
  if (bias != nullptr) head.bias = *bias;
  return head;
}

CalibrationData data_of(const ForgetArguments& given, const HeadView& head) {
  SharedTensor values;
  static_cast<TensorView&>(values) = *given.values;
  return calibration_of(value_named<Space>(given.space), std::move(values), *given.labels,
                        head.classes(), head.features());
}

ForgetRequest request_of(const ForgetArguments& given, const ModelFile& model) {
  const std::size_t classes = model.head().classes();
  ForgetRequest request;
  request.class_names = given.class_names;
  if (!request.class_names.empty() && request.class_names.size() != classes)
    fail(ErrorCode::usage, "class_names: {} names, wanted one for each of {} classes",
         request.class_names.size(), classes);
  for (const std::string& word : given.classes) {
    check_unambiguous(word, request.class_names);
    request.forget.push_back(class_named(word, request.class_names, classes));
  }
  const bool in_order = std::ranges::is_sorted(request.forget);
  std::ranges::sort(request.forget);
  const ClassSplit split = split_for_deletion(classes, request.forget);
  request.method = value_named<Method>(given.method);
  request.solver = value_named<Solver>(given.solver);
  if (given.explain) {
    if (request.method != Method::explained)
      fail(ErrorCode::usage, "explain and method explained go together");
    check_share(*given.explain);
    request.explain = *given.explain;
  }
  request.seed = given.seed;
  request.samples = {given.samples, given.random_samples, given.seed};
  request.allow_nonlinear_tail = given.allow_nonlinear_tail;
  request.ignore_accuracy = given.ignore_accuracy;
  if ((request.method == Method::custom) != (given.target != nullptr))
    fail(ErrorCode::usage, "method custom and target go together");
  if (given.target == nullptr) return request;
  if (!in_order)
    fail(ErrorCode::usage,
         "target: its rows are for the forgotten classes in ascending order of their index; name "
         "them in that order");
  request.custom_target =
      cli::target_in(*given.target, split.forgotten.size(), split.retained.size());
  return request;
}

void check_arguments(const ForgetArguments& given) {
  if ((given.values == nullptr) != (given.labels == nullptr))
    fail(ErrorCode::usage, "features (or logits) and labels go together");
  if (given.values == nullptr && (given.samples || given.random_samples))
    fail(ErrorCode::usage, "samples chooses among data, and none is given");
  if (given.means && given.samples)
    fail(ErrorCode::usage, "samples chooses what class means are made from, and means gives them");
  if (given.random_samples && !given.samples)
    fail(ErrorCode::usage, "random_samples: how many? samples is missing");
}

}  // namespace

Forgotten forget(const ForgetArguments& given, const std::stop_token& stop) {
  check_arguments(given);
  const ArraysModel model(head_of(*given.weights, given.bias, given.transposed), given.shift_shows);
  ForgetInputs inputs{.model = &model};
  if (given.means) inputs.means = given.means->stored();
  const ForgetRequest request = request_of(given, model);
  if (given.values != nullptr) inputs.data = data_of(given, model.head());
  Progress progress("forget", 3);
  ForgetPlan plan = plan_forget(inputs, request, stop);
  progress.step();
  const ForgetOutcome outcome = look_for_leaks(inputs, request, plan);
  progress.step();
  throw_if_stopped(stop);
  Forgotten result;
  nlohmann::ordered_json report{{"head", head_json(model, plan.digests.head)}};
  report.update(plan_json(inputs, request, plan, outcome));
  result.report = to_text(report, -1);
  result.text = cli::describe_plan(inputs, request, plan, outcome);
  result.retained = plan.split().retained;
  if (plan.has_means_to_keep())
    result.means = std::make_shared<Means>(
        shrink_means(*plan.means, plan.filtration, head_digest(plan.new_head_view(model.head()))));
  result.weights = std::move(plan.new_head.weights);
  result.bias = std::move(plan.new_head.bias);
  progress.step();
  return result;
}

std::string digest_of_head(const TensorView& weights, const TensorView* bias, bool transposed) {
  const HeadView head = head_of(weights, bias, transposed);
  validate(head);
  return head_digest(head);
}

}  // namespace oubli::python
