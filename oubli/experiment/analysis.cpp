#include "oubli/experiment/analysis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "oubli/array/npy.h"
#include "oubli/audit/audit.h"
#include "oubli/base/digest.h"
#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/version.h"
#include "oubli/filtration/class_means.h"
#include "oubli/filtration/filtration.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Grows whenever an audit of the same networks says something else: finished audits are then made
// again.
constexpr int kAuditFileVersion = 3;  // 2: intervals of KS; 3: with few networks, Welch's

AuditTask make_task(const RunConfig& config, std::size_t hidden, std::vector<std::size_t> forget,
                    std::string method, std::string samples = "", std::string means_from = "") {
  std::string name = fmt::format("{}{}-{}-{}", recipe_of(config.experiment).architecture, hidden,
                                 fmt::join(forget, "_"), method);
  if (!samples.empty()) name += "-" + samples + "-" + means_from;
  return {.name = std::move(name),
          .hidden = hidden,
          .forget = std::move(forget),
          .method = std::move(method),
          .samples = std::move(samples),
          .means_from = std::move(means_from)};
}

struct DoneTrial {
  std::string id;
  std::size_t model;
};

// The trials of one population that are done, in the order of the plan.
std::vector<DoneTrial> done_trials(const RunFolder& folder, const AuditTask& task, Role role) {
  const std::vector<std::size_t> without =
      role == Role::seen ? std::vector<std::size_t>{} : task.forget;
  const RunConfig& config = folder.config();
  std::size_t models = task.each_class ? config.each_class : 0;
  for (const Part& part : config.parts) {
    if (part.hidden != task.hidden || task.each_class) continue;
    models = role == Role::second ? part.second : part.models;
  }
  std::vector<DoneTrial> trials;
  for (std::size_t model = 0; model < models; ++model) {
    std::string id = trial_id(config, task.hidden, role, without, model);
    const auto record = folder.record(id);
    if (record && record->done) trials.push_back({std::move(id), model});
  }
  return trials;
}

// Which trials an audit is made from; a change of any of it makes the stored audit stale.
struct Inputs {
  std::vector<DoneTrial> seen, unseen;
};

Inputs inputs_of(const RunFolder& folder, const AuditTask& task) {
  return {.seen = done_trials(folder, task, task.method == "floor" ? Role::second : Role::seen),
          .unseen = done_trials(folder, task, Role::unseen)};
}

std::vector<std::string> ids(const std::vector<DoneTrial>& trials) {
  std::vector<std::string> result;
  result.reserve(trials.size());
  for (const DoneTrial& trial : trials) result.push_back(trial.id);
  return result;
}

std::string fingerprint(const RunFolder& folder, const AuditTask& task, const Inputs& inputs) {
  const RunConfig& config = folder.config();
  const json all = {{"task", task.name},        {"each_class", task.each_class},
                    {"seen", ids(inputs.seen)}, {"unseen", ids(inputs.unseen)},
                    {"seed", config.seed},      {"epochs", config.epochs},
                    {"build", kVersion},        {"version", kAuditFileVersion}};
  return sha256_hex(as_bytes(all.dump()));
}

// A trial's logits, mapped.
struct LogitFile {
  LoadedTensor tensor;
  MatrixView<const float> rows;

  LogitFile(const fs::path& path, std::size_t samples, std::size_t columns)
      : tensor(load_array(path.string())) {
    const auto& view = tensor.view;
    if (view.dtype != DType::f32 || view.shape != std::vector<std::size_t>{samples, columns}) {
      fail(ErrorCode::bad_input, "{}: {}, wanted float32 [{}, {}]; remove it and run again",
           path.string(), describe(view), samples, columns);
    }
    // write_npy aligns the elements to 64 bytes, and the file is mapped at a page.
    rows = {reinterpret_cast<const float*>(view.bytes.data()), samples, columns};
  }
};

// The mean logits of every class, from the first `count` test samples of each (0: all).
Matrix<double> test_means(MatrixView<const float> logits, std::span<const std::uint32_t> labels,
                          std::size_t classes, std::size_t count) {
  std::vector<std::size_t> taken(classes);
  ClassMeans means(classes, logits.cols());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (count != 0 && taken[labels[i]]++ >= count) continue;
    means.add(logits.middle_rows(i, 1), labels.subspan(i, 1));
  }
  return means.means();
}

LogitFilter make_filter(const RunFolder& folder, const AuditTask& task, const DoneTrial& trial,
                        MatrixView<const float> logits, std::span<const std::uint32_t> labels,
                        std::size_t classes) {
  if (task.method == "naive") return naive_filter(split_for_deletion(classes, task.forget));
  const std::size_t count = task.samples == "all" ? 0 : std::stoull(task.samples);
  const Matrix<double> means = task.means_from == "train"
                                   ? to_matrix(load_array(folder.means(trial.id).string()).view)
                                   : test_means(logits, labels, classes, count);
  const Tensor stored = to_tensor<double>(means);
  // The paper's solver: what it published is A^-1.
  const auto filtration = Filtration::solve_on_logits(
      {.space = Space::logits, .means = stored.view(trial.id + " class means")}, task.forget,
      Solver::paper);
  const auto method = find_named<Method>(task.method);
  OUBLI_ASSERT(method.has_value());
  auto filter = filtration.logit_filter(
      {.method = *method, .seed = folder.config().seed, .model = trial.model});
  OUBLI_ASSERT(filter.has_value());
  return std::move(*filter);
}

// Rows `samples[i]` of the files, each through its filter if there is one. `kept` maps the audit's
// samples to the files' rows.
struct Source {
  std::vector<LogitFile> files;
  std::vector<LogitFilter> filters;  // empty, or one per file
  std::vector<std::uint32_t> kept;
};

Population population_of(std::string name, const std::shared_ptr<const Source>& source,
                         std::size_t columns) {
  return {.name = std::move(name),
          .models = source->files.size(),
          .samples = source->kept.size(),
          .columns = columns,
          .read = [source](std::size_t model, std::span<const std::uint32_t> samples,
                           MatrixView<float> out) {
            const MatrixView<const float> rows = source->files[model].rows;
            if (source->filters.empty()) {
              for (std::size_t i = 0; i < samples.size(); ++i) {
                std::ranges::copy(rows.row(source->kept[samples[i]]), out.row(i).begin());
              }
              return;
            }
            Matrix<float> before(samples.size(), rows.cols());
            for (std::size_t i = 0; i < samples.size(); ++i) {
              std::ranges::copy(rows.row(source->kept[samples[i]]), before.row(i).begin());
            }
            const Matrix<float> after = source->filters[model].apply(before.view());
            std::ranges::copy(after.flat(), out.flat().begin());
          }};
}

std::vector<LogitFile> open_files(const std::vector<DoneTrial>& trials, std::size_t samples,
                                  std::size_t columns, const auto& path_of) {
  std::vector<LogitFile> files;
  files.reserve(trials.size());
  for (const DoneTrial& trial : trials) files.emplace_back(path_of(trial.id), samples, columns);
  return files;
}

}  // namespace

std::vector<AuditTask> plan_audits(const RunConfig& config) {
  std::vector<AuditTask> tasks;
  for (const Part& part : config.parts) {
    const auto add = [&](std::string method, std::string samples = "", std::string from = "") {
      tasks.push_back(make_task(config, part.hidden, config.forget, std::move(method),
                                std::move(samples), std::move(from)));
    };
    if (part.second > 0) add("floor");
    add("naive");
    for (const std::string& s : config.samples) add("normalization", s, "test");
    add("normalization", "all", "train");
    add("randomization", "all", "test");
    add("zeroing", "all", "test");
    add("refit");
  }
  if (config.each_class > 0) {
    const Recipe& recipe = recipe_of(config.experiment);
    const std::size_t hidden = config.parts.empty() ? recipe.hidden[0] : config.parts[0].hidden;
    for (std::size_t c = 0; c < recipe.classes; ++c) {
      tasks.push_back(make_task(config, hidden, {c}, "naive"));
      tasks.push_back(make_task(config, hidden, {c}, "normalization", "all", "test"));
      for (std::size_t i = tasks.size() - 2; i < tasks.size(); ++i) {
        tasks[i].each_class = true;
        tasks[i].name = "each-" + tasks[i].name;
      }
    }
  }
  return tasks;
}

bool is_audited(const RunFolder& folder, const AuditTask& task) {
  const fs::path path = folder.audit(task.name);
  if (!fs::exists(path)) return false;
  const json file = json::parse(read_text_file(path), nullptr, /*allow_exceptions=*/false);
  return file.is_object() && file.value("format", "") == "oubli-run-audit" &&
         file.value("inputs", "") == fingerprint(folder, task, inputs_of(folder, task));
}

void run_audit(const RunFolder& folder, const AuditTask& task, const ImageSet& test,
               const std::stop_token& stop) {
  const RunConfig& config = folder.config();
  const Recipe& recipe = recipe_of(config.experiment);
  const std::size_t classes = test.classes();
  const std::size_t retained = classes - task.forget.size();
  const Inputs inputs = inputs_of(folder, task);
  const std::string print = fingerprint(folder, task, inputs);
  const auto logits_path = [&](const std::string& id) { return folder.logits(id); };

  std::vector<std::uint32_t> kept;
  std::vector<std::uint32_t> labels;
  for (std::size_t i = 0; i < test.size(); ++i) {
    if (task.each_class && test.labels[i] != task.forget[0]) continue;
    kept.push_back(static_cast<std::uint32_t>(i));
    labels.push_back(test.labels[i]);
  }

  json failed = json::array();
  auto seen = std::make_shared<Source>();
  auto before = std::make_shared<Source>();
  auto unseen = std::make_shared<Source>();
  seen->kept = before->kept = unseen->kept = kept;
  unseen->files = open_files(inputs.unseen, test.size(), retained, logits_path);
  if (task.method == "floor") {
    seen->files = open_files(inputs.seen, test.size(), retained, logits_path);
  } else if (task.method == "refit") {
    seen->files = open_files(inputs.seen, test.size(), retained,
                             [&](const std::string& id) { return folder.refit(id); });
    before->files = open_files(inputs.seen, test.size(), classes, logits_path);
  } else {
    for (const DoneTrial& trial : inputs.seen) {
      throw_if_stopped(stop);
      LogitFile file(folder.logits(trial.id), test.size(), classes);
      try {
        seen->filters.push_back(make_filter(folder, task, trial, file.rows, test.labels, classes));
      } catch (const Error& error) {
        // E.g. class means from one sample each that do not give an invertible A.
        failed.push_back({{"id", trial.id}, {"reason", error.what()}});
        continue;
      }
      seen->files.push_back(std::move(file));
      before->files.emplace_back(folder.logits(trial.id), test.size(), classes);
    }
  }

  json result = nullptr;
  std::string reason;
  if (seen->files.size() < 2 || unseen->files.size() < 2) {
    reason = "an audit needs at least two finished networks in each population";
  } else {
    AuditInput input;
    input.seen = population_of("seen", seen, retained);
    input.unseen = population_of("unseen", unseen, retained);
    input.samples = {.labels = labels, .classes = classes, .forgotten = task.forget};
    input.class_names = test.class_names;
    if (!before->files.empty()) input.before = population_of("before", before, classes);
    result = audit(input, {.attacks = {Attack::nearest_neighbours, Attack::forest, Attack::adaboost,
                                       Attack::logistic},
                           .images_forgotten = recipe.attack_images,
                           .images_retained = recipe.attack_images_retained,
                           .retained = !task.each_class,
                           .seed = config.seed,
                           .workers = 1,
                           .stop = stop});
  }
  const json content = {
      {"format", "oubli-run-audit"},
      {"version", kAuditFileVersion},
      {"name", task.name},
      {"inputs", print},
      {"models", {{"seen", seen->files.size()}, {"unseen", unseen->files.size()}}},
      {"failed", failed},
      {"reason", reason},
      {"audit", result}};
  write_file(folder.audit(task.name), content.dump() + "\n");
}

}  // namespace oubli
