#include "oubli/experiment/reproduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/json.h"
#include "oubli/base/progress.h"
#include "oubli/data/load.h"
#include "oubli/experiment/audit_task.h"
#include "oubli/experiment/explained_logits.h"
#include "oubli/experiment/results.h"
#include "oubli/experiment/run_trial.h"
#include "oubli/experiment/tables.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The indices of `all` that are not yet done.
template <typename T>
std::vector<std::size_t> indices_where(const std::vector<T>& all, const auto& wanted) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (wanted(all[i])) result.push_back(i);
  }
  return result;
}

std::string population_name(const RunConfig& config, const Trial& trial) {
  std::string id = trial_id(config, trial.hidden, trial.role, trial.without, 0);
  return id.substr(0, id.rfind('-'));
}

// Everything of a run whose audits are all there.
Results assemble_results(const RunFolder& folder) {
  const RunConfig& config = folder.config();
  const Recipe& recipe = recipe_of(config.experiment);
  Results results{.experiment = config.experiment,
                  .data_set = recipe.data_set,
                  .architecture = recipe.architecture,
                  .seed = config.seed,
                  .class_names = {},
                  .config = config,
                  .failed = {},
                  .parts = {},
                  .each_class = {},
                  .tables = {}};
  for (const Trial& trial : trials_of(config)) {
    const auto record = folder.record(trial.id);
    if (record && !record->done) results.failed.push_back({trial.id, record->reason});
  }
  for (const AuditTask& task : audit_tasks_of(config)) {
    AuditRecord record = read_audit(folder, task);
    std::vector<PartResult>& list = task.each_class ? results.each_class : results.parts;
    if (list.empty() || list.back().hidden != task.hidden || list.back().forgotten != task.forget) {
      list.push_back({.hidden = task.hidden, .forgotten = task.forget});
      list.back().unseen = record.unseen;
    }
    PartResult& part = list.back();
    if (results.class_names.empty() && record.audit)
      results.class_names = record.audit->class_names;
    if (task.treatment == Treatment(Floor{})) {
      part.floor = std::move(record.audit);
      part.second = record.seen;
      continue;
    }
    if (task.treatment == Treatment(Method::naive)) part.seen = record.seen;
    part.treatments.push_back({.treatment = task.treatment,
                               .means = task.means,
                               .failed = std::move(record.failed),
                               .reason = std::move(record.reason),
                               .audit = std::move(record.audit)});
  }
  results.tables = make_tables(results);
  return results;
}

// Which networks can be audited for method explained after a look at the network itself. Says what
// to do about those that were not kept.
std::vector<std::size_t> kept_but_not_explained(const RunFolder& folder,
                                                const std::vector<Trial>& trials) {
  std::vector<std::size_t> kept;
  std::vector<std::string> gone;
  for (const Trial& trial : not_explained(folder)) {
    if (fs::exists(folder.model(trial.id)))
      kept.push_back(static_cast<std::size_t>(std::ranges::find(trials, trial.id, &Trial::id) -
                                              trials.begin()));
    else
      gone.push_back(trial.id);
  }
  if (!gone.empty())
    say(
        fmt::format("{} networks cannot be audited for all of method explained: they were trained "
                    "before it was asked for, and not kept (--keep-models); remove their files "
                    "from {} and they are trained again. The first: {}",
                    gone.size(), (folder.path() / "trials").string(), gone.front()));
  return kept;
}

// The folder of the main rank, which alone may make it, for every rank.
RunFolder shared_folder(Scheduler& scheduler, const ReproduceOptions& options) {
  std::optional<RunFolder> folder;
  const std::string shared = scheduler.share([&] {
    folder = RunFolder::open_for_writing(options.folder, options.config);
    return to_text(json(folder->config()), -1);
  });
  if (folder) return std::move(*folder);
  return RunFolder::attach(options.folder, json::parse(shared).get<RunConfig>());
}

std::vector<std::size_t> untrained(const RunFolder& folder, const std::vector<Trial>& trials) {
  std::vector<std::size_t> todo = indices_where(trials, [&](const Trial& trial) {
    const auto record = folder.record(trial.id);
    return !record || !record->done;
  });
  if (todo.size() < trials.size())
    say(fmt::format("{}: {} of {} networks are there already", folder.path().string(),
                    trials.size() - todo.size(), trials.size()));
  return todo;
}

std::optional<Results> train_and_audit(Scheduler& scheduler, const ReproduceOptions& options,
                                       const std::stop_token& stop) {
  const RunFolder folder = shared_folder(scheduler, options);
  const RunConfig& config = folder.config();
  const std::vector<Trial> trials = trials_of(config);
  // The main rank says what is to be done.
  const auto of_main = [&](auto indices) {
    return scheduler.is_main() ? indices() : std::vector<std::size_t>{};
  };
  // Loaded where it is needed first, so that a finished run folder needs no training data.
  std::once_flag loaded;
  TrialData data;
  const auto all_data = [&]() -> const TrialData& {
    std::call_once(loaded, [&] { data = load_trial_data(config); });
    return data;
  };
  scheduler.run("training", of_main([&] { return untrained(folder, trials); }), [&](std::size_t i) {
    run_trial(folder, trials[i], all_data(), scheduler.name(), stop);
  });
  if (options.train_only) {
    scheduler.finish();
    return std::nullopt;
  }

  std::once_flag test_loaded;
  ImageSet loaded_test;
  const auto test = [&]() -> const ImageSet& {
    std::call_once(test_loaded, [&] {
      loaded_test = load_data_set(recipe_of(config.experiment).data_set, Split::test);
    });
    return loaded_test;
  };
  scheduler.run("explaining", of_main([&] { return kept_but_not_explained(folder, trials); }),
                [&](std::size_t i) {
                  explain_kept(folder, trials[i].id, [&](MeansSource source) -> const ImageSet& {
                    return source == MeansSource::train ? all_data().train : test();
                  });
                });

  const std::vector<AuditTask> audits = audit_tasks_of(config);
  const auto unaudited = [&] {
    return indices_where(audits, [&](const AuditTask& task) { return !is_audited(folder, task); });
  };
  scheduler.run("auditing", of_main(unaudited),
                [&](std::size_t i) { run_audit(folder, audits[i], test(), stop); });
  scheduler.finish();
  if (!scheduler.is_main()) return std::nullopt;
  Results results = assemble_results(folder);
  write_file(folder.results(), to_text(json(results), 1) + "\n");
  return results;
}

}  // namespace

std::optional<Results> reproduce(Scheduler& scheduler, const ReproduceOptions& options,
                                 const std::stop_token& stop) try {
  return train_and_audit(scheduler, options, stop);
} catch (const std::bad_alloc&) {
  fail(ErrorCode::io,
       "out of memory; what is finished stays in {}: the same command does the rest, and fewer "
       "--jobs take less memory",
       options.folder.string());
}

RunStatus status_of(const fs::path& path) {
  const RunFolder folder = RunFolder::open(path);
  const RunConfig& config = folder.config();
  const auto underway = folder.underway();
  RunStatus status;
  status.holder = folder.holder().value_or("");
  double seconds = 0;
  std::map<std::size_t, std::pair<double, std::size_t>> cost;  // by size: seconds, trials
  std::map<std::size_t, std::size_t> left;
  for (const Trial& trial : trials_of(config)) {
    const std::string name = population_name(config, trial);
    auto row = std::ranges::find_if(status.rows,
                                    [&](const RunStatus::Row& r) { return r.population == name; });
    if (row == status.rows.end()) {
      status.rows.push_back({.population = name});
      row = std::prev(status.rows.end());
    }
    ++row->planned;
    if (underway.contains(trial.id)) ++row->underway;
    const auto record = folder.record(trial.id);
    if (record && record->done) {
      ++row->done;
      cost[trial.hidden].first += record->seconds;
      ++cost[trial.hidden].second;
    } else {
      if (record) {
        ++row->failed;
        status.failures.emplace_back(trial.id, record->reason);
      }
      ++left[trial.hidden];
    }
  }
  bool known = !underway.empty();
  for (const auto& [hidden, count] : left) {
    const auto [spent, trials] = cost[hidden];
    known = known && trials > 0;
    if (trials > 0) seconds += static_cast<double>(count) * spent / static_cast<double>(trials);
  }
  if (known) status.seconds_left = seconds / static_cast<double>(underway.size());
  for (const AuditTask& task : audit_tasks_of(config)) {
    ++status.audits_planned;
    if (is_audited(folder, task)) ++status.audits_done;
  }
  status.finished =
      left.empty() && status.audits_done == status.audits_planned && fs::exists(folder.results());
  return status;
}

}  // namespace oubli
