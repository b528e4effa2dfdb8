#include "oubli/experiment/audit_task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "oubli/array/npy.h"
#include "oubli/audit/audit.h"
#include "oubli/audit/resplit.h"
#include "oubli/base/digest.h"
#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/json_fields.h"
#include "oubli/base/version.h"
#include "oubli/experiment/explained_logits.h"
#include "oubli/experiment/published.h"
#include "oubli/filtration/class_means.h"
#include "oubli/filtration/filtration.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

AuditTask make_task(const RunConfig& config, std::size_t hidden, std::vector<std::size_t> forget,
                    Treatment treatment, std::optional<MeansOf> means) {
  std::string name = fmt::format("{}{}-{}-{}", recipe_of(config.experiment).architecture, hidden,
                                 fmt::join(forget, "_"), name_of(treatment));
  if (means) name += fmt::format("-{}-{}", to_text(means->samples), name_of(means->source));
  return {.name = std::move(name),
          .hidden = hidden,
          .forget = std::move(forget),
          .treatment = treatment,
          .means = means};
}

bool is_floor(const AuditTask& task) { return std::holds_alternative<Floor>(task.treatment); }

// Whether the paper prints advantages of these networks, treated in this way.
bool is_published(const std::string& experiment, const AuditTask& task) {
  if (task.each_class || (task.means && task.means->source != MeansSource::test)) return false;
  const std::string samples = task.means ? to_text(task.means->samples) : "";
  for (const PublishedTable& table : published().tables)
    for (const PublishedRow& row : table.rows)
      if (table.kind == "advantage" && row.experiment == experiment && row.hidden == task.hidden &&
          row.method == name_of(task.treatment) && row.samples == samples)
        return true;
  return false;
}

std::size_t splits_of(const RunConfig& config, const AuditTask& task) {
  return is_published(config.experiment, task) ? config.splits : 1;
}

struct DoneTrial {
  std::string id;
  std::size_t model;
};

// The trials of one population that are done, in the order in which they run.
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
  return {.seen = done_trials(folder, task, is_floor(task) ? Role::second : Role::seen),
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
  json all = {{"task", task.name},        {"each_class", task.each_class},
              {"seen", ids(inputs.seen)}, {"unseen", ids(inputs.unseen)},
              {"seed", config.seed},      {"epochs", config.epochs},
              {"build", kVersion},        {"version", kAuditFileVersion}};
  if (const std::size_t splits = splits_of(config, task); splits > 1) all["splits"] = splits;
  if (const auto* explained = std::get_if<Explained>(&task.treatment)) {
    // Networks may be completed later.
    json& missing = all["not_explained"] = json::array();
    const MeansSource source = task.means.value().source;
    for (const DoneTrial& trial : inputs.seen)
      if (!fs::exists(folder.explained(trial.id, explained->rho, source)))
        missing.push_back(trial.id);
  }
  return sha256_hex(as_bytes(to_text(all, -1)));
}

// A trial's logits, mapped.
struct LogitFile {
  SharedTensor tensor;
  MatrixView<const float> rows;

  LogitFile(const fs::path& path, std::size_t samples, std::size_t columns)
      : tensor(load_array(path.string())) {
    const auto& view = tensor;
    if (view.dtype != DType::f32 || view.shape != std::vector<std::size_t>{samples, columns}) {
      fail(ErrorCode::bad_input, "{}: {}, wanted float32 [{}, {}]; remove it and run again",
           path.string(), describe(view), samples, columns);
    }
    // write_npy aligns the elements to 64 bytes, and the file is mapped at a page.
    rows = {reinterpret_cast<const float*>(view.bytes.data()), samples, columns};
  }
};

// The mean logits of every class, from the first `samples` test samples of each.
Matrix<double> test_means(MatrixView<const float> logits, std::span<const std::uint32_t> labels,
                          std::size_t classes, SampleCount samples) {
  std::vector<std::size_t> taken(classes);
  ClassMeans means(classes, logits.cols());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (samples && taken[labels[i]]++ >= *samples) continue;
    means.add(logits.middle_rows(i, 1), labels.subspan(i, 1));
  }
  return means.means();
}

LogitFilter make_filter(const RunFolder& folder, const AuditTask& task, const DoneTrial& trial,
                        MatrixView<const float> logits, std::span<const std::uint32_t> labels,
                        std::size_t classes) {
  const auto* const explained = std::get_if<Explained>(&task.treatment);
  const Method method = explained != nullptr ? Method::explained : std::get<Method>(task.treatment);
  if (method == Method::naive) return naive_filter(split_for_deletion(classes, task.forget));
  OUBLI_ASSERT(task.means.has_value());
  const Matrix<double> means = task.means->source == MeansSource::train
                                   ? to_matrix(load_array(folder.means(trial.id).string()))
                                   : test_means(logits, labels, classes, task.means->samples);
  const Tensor stored = to_tensor<double>(means);
  // The paper's solver: what it published is A^-1.
  const auto filtration = Filtration::solve_on_logits(
      {.space = Space::logits, .means = stored.view(trial.id + " class means")}, task.forget,
      Solver::paper);
  Target target{.method = method, .seed = folder.config().seed, .model = trial.model};
  Matrix<double> logits_explained;
  if (explained != nullptr) {
    logits_explained =
        read_explained(folder, trial.id, explained->rho, task.means->source, task.forget);
    target.explained = logits_explained.view();
  }
  auto filter = filtration.logit_filter(target);
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

// The populations of one audit.
struct Sources {
  std::shared_ptr<Source> seen = std::make_shared<Source>();
  std::shared_ptr<Source> before = std::make_shared<Source>();  // empty for the floor
  std::shared_ptr<Source> unseen = std::make_shared<Source>();
  std::vector<FailedNetwork> failed;
};

// Networks through their filters; those that cannot be filtered are left out.
void add_filtered(Sources& sources, const RunFolder& folder, const AuditTask& task,
                  const std::vector<DoneTrial>& trials, const ImageSet& test,
                  const std::stop_token& stop) {
  const std::size_t classes = test.classes();
  for (const DoneTrial& trial : trials) {
    throw_if_stopped(stop);
    LogitFile file(folder.logits(trial.id), test.size(), classes);
    try {
      sources.seen->filters.push_back(
          make_filter(folder, task, trial, file.rows, test.labels, classes));
    } catch (const Error& error) {
      // E.g. class means from one sample each that do not give an invertible A.
      sources.failed.push_back({trial.id, error.what()});
      continue;
    }
    sources.seen->files.push_back(std::move(file));
    sources.before->files.emplace_back(folder.logits(trial.id), test.size(), classes);
  }
}

Sources sources_of(const RunFolder& folder, const AuditTask& task, const Inputs& inputs,
                   const ImageSet& test, const std::vector<std::uint32_t>& kept,
                   const std::stop_token& stop) {
  const std::size_t retained = test.classes() - task.forget.size();
  const auto logits_path = [&](const std::string& id) { return folder.logits(id); };
  Sources sources;
  sources.seen->kept = sources.before->kept = sources.unseen->kept = kept;
  sources.unseen->files = open_files(inputs.unseen, test.size(), retained, logits_path);
  if (is_floor(task)) {
    sources.seen->files = open_files(inputs.seen, test.size(), retained, logits_path);
  } else if (std::holds_alternative<Refit>(task.treatment)) {
    sources.seen->files = open_files(inputs.seen, test.size(), retained,
                                     [&](const std::string& id) { return folder.refit(id); });
    sources.before->files = open_files(inputs.seen, test.size(), test.classes(), logits_path);
  } else {
    add_filtered(sources, folder, task, inputs.seen, test, stop);
  }
  return sources;
}

}  // namespace

template <typename Fields>
void members(Fields& fields, AuditRecord& record) {
  fields.required("format", record.format);
  fields.required("version", record.version);
  fields("name", record.name);
  fields.required("inputs", record.inputs);
  fields.object("models", [&](auto& models) {
    models.required("seen", record.seen);
    models.required("unseen", record.unseen);
  });
  fields("failed", record.failed);
  fields("reason", record.reason);
  fields("audit", record.audit);
}

std::vector<AuditTask> audit_tasks_of(const RunConfig& config) {
  constexpr MeansOf kAllOfTest{kAllSamples, MeansSource::test};
  constexpr MeansOf kAllOfTrain{kAllSamples, MeansSource::train};
  std::vector<AuditTask> tasks;
  for (const Part& part : config.parts) {
    const auto add = [&](Treatment treatment, std::optional<MeansOf> means = {}) {
      tasks.push_back(make_task(config, part.hidden, config.forget, treatment, means));
    };
    if (part.second > 0) add(Floor{});
    add(Method::naive);
    for (const SampleCount& s : config.samples)
      add(Method::normalization, MeansOf{s, MeansSource::test});
    add(Method::normalization, kAllOfTrain);
    for (const double rho : config.explain) {
      add(Explained{rho}, kAllOfTest);
      add(Explained{rho}, kAllOfTrain);
    }
    add(Method::randomization, kAllOfTest);
    add(Method::zeroing, kAllOfTest);
    add(Refit{});
  }
  if (config.each_class > 0) {
    const Recipe& recipe = recipe_of(config.experiment);
    const std::size_t hidden = config.parts.empty() ? recipe.hidden[0] : config.parts[0].hidden;
    for (std::size_t c = 0; c < recipe.classes; ++c) {
      const auto add = [&](Treatment treatment, std::optional<MeansOf> means) {
        AuditTask& task = tasks.emplace_back(make_task(config, hidden, {c}, treatment, means));
        task.each_class = true;
        task.name = "each-" + task.name;
      };
      add(Method::naive, {});
      add(Method::normalization, kAllOfTest);
      for (const double rho : config.explain) {
        add(Explained{rho}, kAllOfTest);
        add(Explained{rho}, kAllOfTrain);
      }
    }
  }
  return tasks;
}

AuditRecord read_audit(const RunFolder& folder, const AuditTask& task) {
  const std::string path = folder.audit(task.name).string();
  auto record = read_document<AuditRecord>(parse_document(read_text_file(path), path), path);
  if (record.format != AuditRecord().format)
    fail(ErrorCode::bad_input, "{}: format '{}', wanted '{}'", path, record.format,
         AuditRecord().format);
  return record;
}

bool is_audited(const RunFolder& folder, const AuditTask& task) {
  if (!fs::exists(folder.audit(task.name))) return false;
  try {
    return read_audit(folder, task).inputs == fingerprint(folder, task, inputs_of(folder, task));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) throw;
    return false;  // damaged: it is made again
  }
}

void run_audit(const RunFolder& folder, const AuditTask& task, const ImageSet& test,
               const std::stop_token& stop) {
  const Recipe& recipe = recipe_of(folder.config().experiment);
  const std::size_t classes = test.classes();
  const std::size_t retained = classes - task.forget.size();
  const Inputs inputs = inputs_of(folder, task);

  std::vector<std::uint32_t> kept;
  std::vector<std::uint32_t> labels;
  for (std::size_t i = 0; i < test.size(); ++i) {
    if (task.each_class && test.labels[i] != task.forget[0]) continue;
    kept.push_back(static_cast<std::uint32_t>(i));
    labels.push_back(test.labels[i]);
  }
  Sources sources = sources_of(folder, task, inputs, test, kept, stop);
  AuditRecord record{.name = task.name,
                     .inputs = fingerprint(folder, task, inputs),
                     .seen = sources.seen->files.size(),
                     .unseen = sources.unseen->files.size(),
                     .failed = std::move(sources.failed),
                     .reason = {},
                     .audit = {}};
  if (record.seen < 2 || record.unseen < 2) {
    record.reason = "an audit needs at least two finished networks in each population";
  } else {
    AuditInput input;
    input.seen = population_of("seen", sources.seen, retained);
    input.unseen = population_of("unseen", sources.unseen, retained);
    input.samples = {.labels = labels, .classes = classes, .forgotten = task.forget};
    input.class_names = test.class_names;
    if (!sources.before->files.empty())
      input.before = population_of("before", sources.before, classes);
    AuditOptions options{.images_forgotten = recipe.attack_images,
                         .images_retained = recipe.attack_images_retained,
                         .retained = !task.each_class,
                         .seed = folder.config().seed,
                         .workers = 1,
                         .stop = stop};
    record.audit = audit(input, options);
    // What the paper has: its attacks, for who sees logits.
    options.attacks = {Attack::nearest_neighbours, Attack::forest, Attack::adaboost};
    options.observers = {Observer::logits};
    add_splits(record.audit->leaks, input.seen, input.unseen, input.samples, options,
               splits_of(folder.config(), task));
  }
  write_file(folder.audit(task.name), to_text(json(record), -1) + "\n");
}

}  // namespace oubli
