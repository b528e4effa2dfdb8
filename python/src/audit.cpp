#include "oubli/audit/audit.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "oubli/array/labels.h"
#include "oubli/audit/alignment.h"
#include "oubli/audit/columns.h"
#include "oubli/audit/resplit.h"
#include "oubli/audit/sampling.h"
#include "oubli/base/enum_names.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/json.h"
#include "oubli/base/names.h"
#include "oubli/base/progress.h"
#include "oubli/base/workers.h"
#include "oubli/cli/choices.h"
#include "oubli/report/html.h"
#include "oubli/report/page.h"
#include "oubli/report/read_report.h"
#include "oubli/report/verdict.h"
#include "python/src/arrays.h"
#include "python/src/call.h"
#include "python/src/module.h"

namespace oubli::python {
namespace {

using Arrays = std::vector<const Given*>;

Population population(const Arrays& arrays, const std::string& name) {
  if (arrays.size() == 1 && arrays.front()->view().rank() != 2)
    return population_of(arrays.front()->view());
  std::vector<TensorView> views;
  for (const Given* const array : arrays) views.push_back(array->view());
  return population_of(std::move(views), name);
}

struct Arguments {
  Arrays seen, unseen, unseen2, before;
  std::vector<std::tuple<std::string, Arrays, Arrays, Arrays>>
      layers;  // name, seen, unseen, before
  const Given* labels = nullptr;
  std::vector<std::string> classes, class_names, attacks, observers;
  AuditOptions options;
  std::size_t splits = 1;
  bool ignore_accuracy = false;
};

AuditInput input_of(const Arguments& given) {
  AuditInput input{.seen = population(given.seen, "seen"),
                   .unseen = population(given.unseen, "unseen"),
                   .unseen2 = {},
                   .before = {},
                   .features = {},
                   .samples = {},
                   .class_names = given.class_names};
  if (!given.unseen2.empty()) input.unseen2 = population(given.unseen2, "unseen2");
  if (!given.before.empty()) input.before = population(given.before, "before");
  for (const auto& [name, seen, unseen, before] : given.layers) {
    FeatureLayer layer{name, {}, {}, {}};
    if (!seen.empty()) layer.seen = population(seen, "features");
    if (!unseen.empty()) layer.unseen = population(unseen, "unseen_features");
    if (!before.empty()) layer.before = population(before, "before_features");
    input.features.push_back(std::move(layer));
  }
  return input;
}

AuditResult audit_arrays(Arguments& given) {
  constexpr std::size_t kFewestResamples = 100;
  AuditOptions& options = given.options;
  if (options.bootstrap != 0 && options.bootstrap < kFewestResamples)
    fail(ErrorCode::usage, "bootstrap {}: fewer than {} resamples have no 95 % interval; 0: none",
         options.bootstrap, kFewestResamples);
  if (!given.attacks.empty()) options.attacks = cli::chosen_from<Attack>(given.attacks);
  if (!given.observers.empty()) options.observers = cli::chosen_from<Observer>(given.observers);
  AuditInput input = input_of(given);
  const std::size_t classes = input.seen.columns + given.classes.size();
  std::vector<std::size_t> forgotten;
  for (const std::string& word : given.classes)
    forgotten.push_back(class_named(
        word, input.class_names, input.class_names.empty() ? classes : input.class_names.size()));
  std::ranges::sort(forgotten);
  if (std::ranges::adjacent_find(forgotten) != forgotten.end())
    fail(ErrorCode::usage, "classes: one of them is named twice");
  const std::vector<std::uint32_t> labels = to_labels(given.labels->view(), classes);
  if (labels.empty()) fail(ErrorCode::bad_input, "{}: no labels", given.labels->view().what);
  check_columns_gone(input, given.classes.size(), std::ranges::max(labels));
  if (!input.class_names.empty() && input.class_names.size() != classes)
    fail(ErrorCode::bad_input, "class_names: {} names, wanted one for each of {} classes",
         input.class_names.size(), classes);
  input.samples = {.labels = labels, .classes = classes, .forgotten = std::move(forgotten)};
  const auto misaligned = given.ignore_accuracy ? why_misaligned(input) : std::nullopt;
  if (!given.ignore_accuracy) require_aligned(input);
  options.stop = StopScope::current();
  const std::size_t audited = audited_classes(input.samples, options).all().size();
  Progress progress("audit", audited * (given.splits + (input.unseen2 ? 1 : 0)));
  options.on_class = [&] { progress.step(); };
  AuditResult result = audit(input, options);
  if (result.leaks_reason.empty())
    add_splits(result.leaks, input.seen, input.unseen, input.samples, options, given.splits);
  result.options.on_class = {};  // refers to `progress`
  if (misaligned) result.warnings.push_back(ignored_warning(*misaligned));
  return result;
}

// The verdict and its picture as a page of its own, small enough for a notebook's cell.
std::string answer_page(const AuditResult& result) {
  report::ReportData data;
  report::add_audit(data, result);
  const report::Comparison& comparison = data.comparisons.front();
  std::string page = fmt::format("<!doctype html><meta charset=\"utf-8\"><style>{}</style>",
                                 report::style_sheet());
  page += "<main><section class=\"answer\">";
  if (comparison.measured()) {
    const std::string method = report::judged_method(comparison, "");
    const auto verdicts = report::judge(comparison, method);
    const report::VerdictChart picture = report::chart(verdicts, method);
    page += fmt::format("<p class=\"sentence\">{}</p><figure>{}{}</figure>",
                        report::escape(report::sentence(verdicts, method)),
                        report::svg(picture, true), report::svg(picture, false));
  } else {
    page += fmt::format("<p class=\"sentence\">{}</p>", report::escape(result.leaks_reason));
  }
  return page + "</section></main>";
}

std::shared_ptr<AuditResult> audit_in_python(const py::dict& options, const py::object& progress) {
  Arguments given;
  const auto take = [&]<typename T>(const char* name, T& into) { into = options[name].cast<T>(); };
  take("seen", given.seen);
  take("unseen", given.unseen);
  take("unseen2", given.unseen2);
  take("before", given.before);
  take("layers", given.layers);
  take("labels", given.labels);
  take("classes", given.classes);
  take("class_names", given.class_names);
  take("attack", given.attacks);
  take("observer", given.observers);
  AuditOptions& audit = given.options;
  std::vector<std::size_t> answers;
  take("answers", answers);
  std::ranges::sort(answers);
  answers.erase(std::ranges::unique(answers).begin(), answers.end());
  if (!answers.empty()) audit.answers = std::move(answers);
  take("train_share", audit.train_share);
  take("images", audit.images_forgotten);
  take("images_retained", audit.images_retained);
  bool forgotten_only = false;
  take("forgotten_only", forgotten_only);
  audit.retained = !forgotten_only;
  take("all", audit.all);
  take("ignore_accuracy", given.ignore_accuracy);
  take("splits", given.splits);
  take("directions", audit.directions);
  take("bootstrap", audit.bootstrap);
  take("seed", audit.seed);
  take("jobs", audit.workers);
  if (audit.workers == 0) audit.workers = available_cores();
  auto result = std::make_shared<AuditResult>();
  run_call(progress, [&] { *result = audit_arrays(given); });
  return result;
}

}  // namespace

void add_audit(py::module_& module) {
  py::class_<AuditResult, std::shared_ptr<AuditResult>>(module, "AuditResult")
      .def("json",
           [](const AuditResult& result) { return to_text(nlohmann::json(result), 2) + "\n"; })
      .def("text", [](const AuditResult& result) { return to_text(result); })
      .def("csv", [](const AuditResult& result) { return to_csv(result); })
      .def("sentence", [](const AuditResult& result) { return sentence(result.verdict); })
      .def("answer_page", &answer_page);
  module.def("audit", &audit_in_python, py::arg("options"), py::arg("progress"));
  module.def(
      "write_report",
      [](const std::vector<std::filesystem::path>& inputs, const std::filesystem::path& output,
         bool replace, const std::string& method, const std::string& title) {
        run_call(py::none(), [&] { report::write_report(inputs, output, replace, method, title); });
      },
      py::arg("inputs"), py::arg("output"), py::arg("replace"), py::arg("method"),
      py::arg("title"));
}

}  // namespace oubli::python
