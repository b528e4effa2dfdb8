#include "oubli/experiment/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "oubli/audit/bootstrap.h"
#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/json.h"
#include "oubli/base/progress.h"
#include "oubli/data/load.h"
#include "oubli/experiment/method_files.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::size_t hidden_of(const MethodsPlan& plan) {
  return plan.hidden != 0 ? plan.hidden : usual_hidden(plan.experiment);
}

// Networks retrained without each class are of the folder's smallest size.
void require_size(const RunFolder& folder, const MethodsPlan& plan) {
  const std::size_t hidden = folder.config().parts[0].hidden;
  if (hidden != hidden_of(plan))
    fail(ErrorCode::usage,
         "{}: networks retrained without each class have {} units; take --hidden {} or another "
         "folder",
         folder.path().string(), hidden, hidden);
}

// The stage of short_retraining() whose time a whole retraining's is told from.
constexpr const char* kTimed = "retraining, 3 epochs";
constexpr double kTimedEpochs = 3;

// One attack on one class, from the files.
const AttackLeak* find_attack(const Leaks& leaks, std::size_t label, Observer observer,
                              Attack attack, std::size_t answers) {
  const ClassLeaks* of_class = find(leaks.classes, label);
  if (of_class == nullptr) return nullptr;
  return find(find(of_class->observers, observer), attack, answers);
}

// The mean over classes. The seen networks are the same for all classes, so that their errors may
// add up; the retrained ones are others for each.
Figure mean_over_classes(std::span<const AttackLeak* const> leaks) {
  const auto classes = static_cast<double>(leaks.size());
  double sum = 0, seen = 0, unseen = 0;
  std::size_t fewest = ~std::size_t{0};
  for (const AttackLeak* leak : leaks) {
    if (leak == nullptr || !leak->advantage.value)
      return Figure::missing(leak == nullptr ? "not measured" : leak->advantage.reason);
    sum += *leak->advantage.value / classes;
    fewest = std::min({fewest, leak->shares[0].size(), leak->shares[1].size()});
    if (fewest < 2) continue;
    seen += std::sqrt(variance_of_share(leak->shares[0], leak->answers_per_network)) / classes;
    unseen += variance_of_share(leak->shares[1], leak->answers_per_network) / (classes * classes);
  }
  if (leaks.empty()) return Figure::missing("no classes");
  if (fewest < 2) return Figure::of(sum, "an interval takes two test networks of each kind");
  const double half =
      student_t_975(static_cast<double>(fewest - 1)) * std::sqrt(seen * seen + unseen);
  Figure figure = Figure::of(sum);
  figure.low = std::max(-1.0, sum - half);
  figure.high = std::min(1.0, sum + half);
  return figure;
}

// All classes of one method.
struct MethodLeaks {
  std::vector<std::size_t> classes;
  std::vector<Leaks> leaks;  // one per class

  [[nodiscard]] std::vector<const AttackLeak*> attack(Observer observer, Attack attack,
                                                      std::size_t answers) const {
    std::vector<const AttackLeak*> found;
    for (std::size_t i = 0; i < classes.size(); ++i)
      found.push_back(find_attack(leaks[i], classes[i], observer, attack, answers));
    return found;
  }
  [[nodiscard]] Figure mean(Observer observer, Attack attack_, std::size_t answers) const {
    return mean_over_classes(attack(observer, attack_, answers));
  }
  // The form of the attack per image that tells more over all classes: chosen once, because the
  // larger of two noisy figures for each class would be too large.
  [[nodiscard]] Attack worse_form(Observer observer, std::size_t answers) const {
    const Figure pooled = mean(observer, Attack::per_image, answers);
    const Figure spread = mean(observer, Attack::per_image_spread, answers);
    return spread.value && (!pooled.value || *spread.value > *pooled.value)
               ? Attack::per_image_spread
               : Attack::per_image;
  }
  [[nodiscard]] Figure per_image(Observer observer, std::size_t answers) const {
    return mean(observer, worse_form(observer, answers), answers);
  }
};

void set_leaks(MethodRow& row, const MethodLeaks& leaks) {
  using enum Observer;
  row.one_answer = leaks.per_image(probabilities, 1);
  row.ten_answers = leaks.per_image(probabilities, 10);
  row.hundred_answers = leaks.per_image(probabilities, 100);
  row.ten_logits = leaks.per_image(logits, 10);
  row.logistic = leaks.mean(probabilities, Attack::logistic, 1);
  row.nearest_neighbours = leaks.mean(probabilities, Attack::nearest_neighbours, 1);
  for (const AttackLeak* leak :
       leaks.attack(probabilities, leaks.worse_form(probabilities, 10), 10))
    row.by_class.push_back(leak != nullptr ? leak->advantage : Figure::missing("not measured"));
}

// Per class and network, what was recorded.
using Records = std::map<std::pair<std::size_t, std::string>, UnlearnedRecord>;

Records records_of(const RunFolder& folder, const MethodsPlan& plan, const std::string& method) {
  const MethodFiles files(folder);
  Records records;
  for (const Trial& trial : trials_of(plan, folder.config())) {
    if (trial.role != Role::seen) continue;
    for (const std::size_t label : plan.classes)
      if (auto record = files.read(label, method, trial.id))
        records.emplace(std::pair(label, trial.id), std::move(*record));
  }
  return records;
}

// Accuracy minus naive's, in points: the mean over networks, of means over classes.
Figure accuracy_change(const Records& records, const Records& naive) {
  std::map<std::string, std::vector<double>> by_network;
  for (const auto& [key, record] : records) {
    const auto before = naive.find(key);
    if (record.reason.empty() && before != naive.end())
      by_network[key.second].push_back(100 * (record.accuracy - before->second.accuracy));
  }
  std::vector<double> changes;
  for (const auto& [network, values] : by_network) changes.push_back(mean_std(values).mean);
  if (changes.empty()) return Figure::missing("no networks");
  const MeanStd spread = mean_std(changes);
  if (changes.size() < 2) return Figure::of(spread.mean, "one network");
  const auto n = static_cast<double>(changes.size());
  const double half = student_t_975(n - 1) * spread.std / std::sqrt(n);
  return {spread.mean, spread.mean - half, spread.mean + half, ""};
}

MethodRow row_of(const std::string& name, const Records& records, const Records& naive,
                 const MethodsResult& result) {
  MethodRow row;
  row.name = name;
  for (const auto& [key, record] : records) {
    if (!record.reason.empty()) {
      row.failed.push_back(fmt::format("{}, class {}: {}", key.second, key.first, record.reason));
      continue;
    }
    ++row.networks;
    row.gradients += record.gradients;
    row.seconds += record.seconds;
  }
  if (row.networks > 0) {
    row.gradients /= static_cast<double>(row.networks) * result.retraining_gradients;
    row.seconds = result.retraining_seconds > 0
                      ? row.seconds / static_cast<double>(row.networks) / result.retraining_seconds
                      : 0;
  }
  row.accuracy = accuracy_change(records, naive);
  return row;
}

std::vector<std::string> method_names(const MethodsPlan& plan) {
  std::vector<std::string> names;
  for (const Rival& rival : rivals_named(plan.methods))
    names.insert(names.end(), rival.names.begin(), rival.names.end());
  return names;
}

MethodsResult assemble(const RunFolder& folder, const MethodsPlan& plan, const TrialData& data) {
  const Recipe& recipe = recipe_of(plan.experiment);
  MethodsResult result{.experiment = plan.experiment,
                       .seed = plan.seed,
                       .epochs = plan.epochs != 0 ? plan.epochs : recipe.epochs,
                       .hidden = hidden_of(plan),
                       .classes = plan.classes,
                       .tuning_classes = {std::begin(kTuningClasses), std::end(kTuningClasses)},
                       .class_names = {},
                       .seen = plan.models,
                       .unseen = plan.models,
                       .retraining_gradients = 0,
                       .retraining_seconds = 0,
                       .methods = {},
                       .floor = {}};
  for (const std::size_t label : plan.classes) {
    result.class_names.push_back(data.test.class_names[label]);
    const auto count = static_cast<double>(
        data.train.size() - static_cast<std::size_t>(std::ranges::count(data.train.labels, label)));
    result.retraining_gradients +=
        count * static_cast<double>(result.epochs) / static_cast<double>(plan.classes.size());
  }
  double timed = 0;
  for (const auto& [key, record] : records_of(folder, plan, kTimed))
    if (record.reason.empty()) result.retraining_seconds += record.seconds, ++timed;
  result.retraining_seconds *=
      static_cast<double>(result.epochs) / kTimedEpochs / std::max(timed, 1.0);

  const Records naive = records_of(folder, plan, "naive");
  std::vector<std::string> names = method_names(plan);
  names.emplace_back(kFloorMethod);
  for (const std::string& name : names) {
    MethodLeaks leaks{.classes = plan.classes, .leaks = {}};
    const bool floor = name == kFloorMethod;
    for (const std::size_t label : plan.classes) {
      const MethodAudit audit = method_audit(folder, plan, label, name);
      leaks.leaks.push_back(read_leaks(folder, audit).value_or(Leaks{}));
      if (floor) continue;
      if (name == "naive") result.seen = std::min(result.seen, audit.seen.size());
      result.unseen = std::min(result.unseen, audit.unseen.size());
    }
    MethodRow row = floor ? MethodRow{.name = name}
                          : row_of(name, records_of(folder, plan, name), naive, result);
    set_leaks(row, leaks);
    if (floor)
      result.floor = std::move(row);
    else
      result.methods.push_back(std::move(row));
  }
  return result;
}

}  // namespace

void check(const MethodsPlan& plan) {
  const Recipe& recipe = recipe_of(plan.experiment);
  if (recipe.architecture == "residual")
    fail(
        ErrorCode::usage,
        "methods: the networks of '{}' have batch normalisation, which not all methods are written "
        "for; there is mnist, fashion-mnist and cifar10",
        plan.experiment);
  (void)rivals_named(plan.methods);
  if (plan.classes.empty()) fail(ErrorCode::usage, "--classes: at least one");
  for (std::size_t i = 0; i < plan.classes.size(); ++i) {
    const std::size_t label = plan.classes[i];
    if (label >= recipe.classes)
      fail(ErrorCode::usage, "--classes: {}; there are classes 0 to {}", label, recipe.classes - 1);
    if (std::ranges::count(plan.classes, label) != 1)
      fail(ErrorCode::usage, "--classes: {} is named twice", label);
  }
  if (plan.models < 4) fail(ErrorCode::usage, "--models {}: attacks take at least 4", plan.models);
}

std::size_t usual_hidden(const std::string& experiment) {
  const Recipe& recipe = recipe_of(experiment);
  return recipe.architecture == "cnn" ? std::ranges::min(recipe.hidden) : recipe.hidden[0];
}

RunConfig config_of(const MethodsPlan& plan) {
  const Recipe& recipe = recipe_of(plan.experiment);
  return {.experiment = plan.experiment,
          .seed = plan.seed,
          .epochs = plan.epochs,
          .forget = recipe.forget,
          .parts = {{.hidden = hidden_of(plan), .models = plan.models, .second = 0}},
          .each_class = plan.models,
          .samples = {kAllSamples},
          .keep_models = true};
}

std::vector<Trial> trials_of(const MethodsPlan& plan, const RunConfig& config) {
  const std::size_t hidden = hidden_of(plan);
  std::vector<Trial> trials;
  for (Trial& trial : trials_of(config)) {
    const bool wanted = trial.role == Role::seen ||
                        (trial.role == Role::unseen && trial.without.size() == 1 &&
                         std::ranges::find(plan.classes, trial.without[0]) != plan.classes.end());
    if (wanted && trial.hidden == hidden && trial.model < plan.models)
      trials.push_back(std::move(trial));
  }
  std::ranges::stable_sort(trials, {}, &Trial::model);
  return trials;
}

std::optional<MethodsResult> run_methods(Scheduler& scheduler, const fs::path& path,
                                         const MethodsPlan& plan, const std::stop_token& stop) {
  check(plan);
  std::optional<RunFolder> folder;
  const std::string shared = scheduler.share([&] {
    folder = RunFolder::open_for_writing(path, config_of(plan));
    return to_text(json(folder->config()), -1);
  });
  if (!folder) folder = RunFolder::attach(path, json::parse(shared).get<RunConfig>());
  require_size(*folder, plan);
  const TrialData data = load_trial_data(folder->config());

  // What is left to do, in the main process's view; others get their tasks from it.
  const auto run = [&](const std::string& label, std::size_t count, const auto& missing,
                       const std::function<void(std::size_t)>& task) {
    std::vector<std::size_t> todo;
    for (std::size_t i = 0; scheduler.is_main() && i < count; ++i)
      if (missing(i)) todo.push_back(i);
    scheduler.run(label, todo, task);
  };
  const std::vector<Trial> trials = trials_of(plan, folder->config());
  const auto is_trained = [&](const Trial& trial) {
    const auto record = folder->record(trial.id);
    return record && record->done &&
           (trial.role != Role::seen || fs::exists(folder->model(trial.id)));
  };
  run(
      "training", trials.size(), [&](std::size_t i) { return !is_trained(trials[i]); },
      [&](std::size_t i) { run_trial(*folder, trials[i], data, scheduler.name(), stop); });

  const std::vector<Rival> rivals = rivals_named(plan.methods);
  std::vector<std::pair<const Trial*, std::size_t>> requests;
  for (const Trial& trial : trials)
    if (trial.role == Role::seen)
      for (const std::size_t label : plan.classes) requests.emplace_back(&trial, label);
  run(
      "unlearning", requests.size(),
      [&](std::size_t i) {
        const auto [trial, label] = requests[i];
        return is_trained(*trial) && !is_unlearned(*folder, trial->id, label, rivals);
      },
      [&](std::size_t i) {
        unlearn(*folder, *requests[i].first, requests[i].second, rivals, data, stop);
      });

  std::vector<MethodAudit> audits;
  std::vector<std::string> names = method_names(plan);
  names.insert(names.begin(), kFloorMethod);
  for (const std::string& name : names)
    for (const std::size_t label : plan.classes)
      audits.push_back(method_audit(*folder, plan, label, name));
  run(
      "auditing", audits.size(), [&](std::size_t i) { return !read_leaks(*folder, audits[i]); },
      [&](std::size_t i) { run_audit(*folder, audits[i], data.test, stop); });
  scheduler.finish();
  if (!scheduler.is_main()) return std::nullopt;
  MethodsResult result = assemble(*folder, plan, data);
  write_file(path / "methods.json", to_text(json(result), 1) + "\n");
  return result;
}

}  // namespace oubli
