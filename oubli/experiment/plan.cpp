#include "oubli/experiment/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "oubli/base/error.h"
#include "oubli/base/json.h"
#include "oubli/base/random.h"

namespace oubli {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 4> kExperiments = {"mnist", "fashion-mnist", "cifar10",
                                                          "faces"};

const std::map<std::string, Recipe, std::less<>>& recipes() {
  static const std::map<std::string, Recipe, std::less<>> all = [] {
    // 150 test images of the forgotten class and 100 of each retained one (MNIST).
    const Recipe mnist{.data_set = "mnist",
                       .architecture = "mlp",
                       .hidden = {50},
                       .forget = {0},
                       .attack_images_retained = 100};
    Recipe fashion = mnist;
    fashion.data_set = "fashion-mnist";
    const Recipe cifar{
        .data_set = "cifar10", .architecture = "cnn", .hidden = {256, 64, 1024}, .forget = {0}};
    const Recipe faces{.data_set = "att-faces",
                       .architecture = "residual",
                       .classes = 40,
                       .epochs = 15,
                       .batch = 8,
                       .hidden = {256},
                       .forget = {0, 1, 2, 3}};
    return std::map<std::string, Recipe, std::less<>>{
        {"mnist", mnist}, {"fashion-mnist", fashion}, {"cifar10", cifar}, {"faces", faces}};
  }();
  return all;
}

// What may not change between two commands on one run folder.
void require_same(std::string_view what, const json& stored, const json& wanted) {
  if (stored == wanted) return;
  fail(ErrorCode::usage,
       "the run folder was made with {} {}, now it is {}: use another folder (--run) or the same "
       "value",
       what, stored.dump(), wanted.dump());
}

}  // namespace

std::string_view name_of(Role role) {
  switch (role) {
    case Role::seen:
      return "seen";
    case Role::unseen:
      return "unseen";
    case Role::second:
      return "second";
  }
  return "?";
}

std::span<const std::string_view> experiment_names() { return kExperiments; }

const Recipe& recipe_of(std::string_view experiment) {
  const auto found = recipes().find(experiment);
  if (found == recipes().end()) {
    fail(ErrorCode::usage, "there is no experiment '{}': one of {}", experiment,
         fmt::join(kExperiments, ", "));
  }
  return found->second;
}

void to_json(json& out, const RunConfig& config) {
  json parts = json::array();
  for (const Part& part : config.parts) {
    parts.push_back({{"hidden", part.hidden}, {"models", part.models}, {"second", part.second}});
  }
  out = {{"experiment", config.experiment},
         {"seed", config.seed},
         {"epochs", config.epochs},
         {"forget", config.forget},
         {"parts", parts},
         {"each_class", config.each_class},
         {"samples", config.samples},
         {"keep_models", config.keep_models}};
}

void from_json(const json& in, RunConfig& config) {
  in.at("experiment").get_to(config.experiment);
  config.seed = whole_number<std::uint64_t>(in.at("seed"));
  config.epochs = whole_number(in.at("epochs"));
  config.forget = whole_numbers<std::size_t>(in.at("forget"));
  config.parts.clear();
  for (const json& part : in.at("parts")) {
    config.parts.push_back(
        {.hidden = whole_number(part.at("hidden")),
         .models = whole_number(part.at("models")),
         .second = whole_number(part.at(part.contains("second") ? "second" : "models"))});
  }
  config.each_class = whole_number(in.at("each_class"));
  in.at("samples").get_to(config.samples);
  in.at("keep_models").get_to(config.keep_models);
}

RunConfig merge(const RunConfig& stored, const RunConfig& wanted) {
  require_same("experiment", stored.experiment, wanted.experiment);
  require_same("--seed", stored.seed, wanted.seed);
  require_same("--epochs", stored.epochs, wanted.epochs);
  require_same("forgotten classes", stored.forget, wanted.forget);
  RunConfig result = stored;
  for (const Part& part : wanted.parts) {
    const auto found =
        std::ranges::find_if(result.parts, [&](const Part& p) { return p.hidden == part.hidden; });
    if (found == result.parts.end()) {
      result.parts.push_back(part);
    } else {
      found->models = std::max(found->models, part.models);
      found->second = std::max(found->second, part.second);
    }
  }
  std::ranges::sort(result.parts, {}, &Part::hidden);
  result.each_class = std::max(stored.each_class, wanted.each_class);
  result.keep_models = stored.keep_models || wanted.keep_models;
  for (const std::string& s : wanted.samples) {
    if (std::ranges::find(result.samples, s) == result.samples.end()) result.samples.push_back(s);
  }
  // Numbers first, "all" last.
  std::ranges::sort(result.samples, {}, [](const std::string& s) {
    return s == "all" ? ~std::uint64_t{0} : std::stoull(s);
  });
  return result;
}

std::string trial_id(const RunConfig& config, std::size_t hidden, Role role,
                     std::span<const std::size_t> without, std::size_t model) {
  std::string id =
      fmt::format("{}{}-{}", recipe_of(config.experiment).architecture, hidden, name_of(role));
  if (!without.empty()) id += fmt::format("-{}", fmt::join(without, "_"));
  return id + fmt::format("-{:03}", model);
}

std::vector<Trial> plan_trials(const RunConfig& config) {
  std::vector<Trial> trials;
  const auto add = [&](std::size_t hidden, Role role, std::vector<std::size_t> without,
                       std::size_t model) {
    std::string id = trial_id(config, hidden, role, without, model);
    trials.push_back({.id = std::move(id),
                      .hidden = hidden,
                      .role = role,
                      .without = std::move(without),
                      .model = model});
  };
  std::size_t most = 0;
  for (const Part& part : config.parts) most = std::max({most, part.models, part.second});
  for (std::size_t model = 0; model < most; ++model) {
    for (const Part& part : config.parts) {
      if (model < part.models) {
        add(part.hidden, Role::seen, {}, model);
        add(part.hidden, Role::unseen, config.forget, model);
      }
      if (model < part.second) add(part.hidden, Role::second, config.forget, model);
    }
  }
  // Each class in turn shares the seen population, and the unseen one of the main forgotten class.
  const Recipe& recipe = recipe_of(config.experiment);
  const std::size_t hidden = config.parts.empty() ? recipe.hidden[0] : config.parts[0].hidden;
  const std::size_t have = config.parts.empty() ? 0 : config.parts[0].models;
  for (std::size_t model = 0; model < config.each_class; ++model) {
    if (model >= have) add(hidden, Role::seen, {}, model);
    for (std::size_t c = 0; c < recipe.classes; ++c) {
      const bool planned = config.forget == std::vector<std::size_t>{c} && model < have;
      if (!planned) add(hidden, Role::unseen, {c}, model);
    }
  }
  return trials;
}

std::uint64_t trial_number(const Trial& trial) {
  std::uint64_t classes = 0;
  for (const std::size_t c : trial.without) classes = task_id("without", {classes, c});
  return task_id("trial",
                 {trial.hidden, static_cast<std::uint64_t>(trial.role), classes, trial.model});
}

}  // namespace oubli
