#include "oubli/experiment/run_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "oubli/base/error.h"
#include "oubli/base/json_fields.h"
#include "oubli/base/random.h"
#include "oubli/filtration/explained.h"

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
    const Recipe faces{.data_set = "faces",
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
       what, to_text(stored, -1), to_text(wanted, -1));
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

std::string to_text(SampleCount samples) { return samples ? std::to_string(*samples) : "all"; }

SampleCount sample_count_of(const std::string& text) {
  if (text == "all") return kAllSamples;
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || text.starts_with('0'))
    fail(ErrorCode::usage, "samples '{}': wanted a whole number from 1, or 'all'", text);
  return count;
}

const Recipe& recipe_of(std::string_view experiment) {
  const auto found = recipes().find(experiment);
  if (found == recipes().end()) {
    fail(ErrorCode::usage, "there is no experiment '{}': one of {}", experiment,
         fmt::join(kExperiments, ", "));
  }
  return found->second;
}

void to_json(json& out, const RunConfig& config) {
  json parts = json::array(), samples = json::array();
  for (const Part& part : config.parts)
    parts.push_back({{"hidden", part.hidden}, {"models", part.models}, {"second", part.second}});
  for (const SampleCount& count : config.samples) samples.push_back(to_text(count));
  out = {{"experiment", config.experiment},
         {"seed", config.seed},
         {"epochs", config.epochs},
         {"forget", config.forget},
         {"parts", parts},
         {"each_class", config.each_class},
         {"samples", samples},
         {"explain", config.explain},
         {"splits", config.splits},
         {"keep_models", config.keep_models}};
}

void from_json(const json& in, Part& part) {
  require_field(in, "hidden", part.hidden);
  require_field(in, "models", part.models);
  part.second = part.models;  // what there was before it could be chosen
  read_field(in, "second", part.second);
}

void from_json(const json& in, RunConfig& config) {
  require_field(in, "experiment", config.experiment);
  require_field(in, "seed", config.seed);
  require_field(in, "epochs", config.epochs);
  require_field(in, "forget", config.forget);
  require_field(in, "parts", config.parts);
  require_field(in, "each_class", config.each_class);
  std::vector<std::string> samples;
  require_field(in, "samples", samples);
  at_place("samples", [&] {
    config.samples.clear();
    for (const std::string& text : samples) config.samples.push_back(sample_count_of(text));
  });
  read_field(in, "explain", config.explain);  // there was none
  at_place("explain", [&] {
    for (const double rho : config.explain) check_share(rho);
  });
  read_field(in, "splits", config.splits);
  require_field(in, "keep_models", config.keep_models);
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
  result.splits = std::max(stored.splits, wanted.splits);
  result.keep_models = stored.keep_models || wanted.keep_models;
  for (const SampleCount& s : wanted.samples) {
    if (std::ranges::find(result.samples, s) == result.samples.end()) result.samples.push_back(s);
  }
  for (const double rho : wanted.explain)
    if (std::ranges::find(result.explain, rho) == result.explain.end())
      result.explain.push_back(rho);
  std::ranges::sort(result.explain);
  // Numbers first, all last.
  std::ranges::sort(result.samples, {},
                    [](const SampleCount& s) { return s.value_or(~std::size_t{0}); });
  return result;
}

std::string trial_id(const RunConfig& config, std::size_t hidden, Role role,
                     std::span<const std::size_t> without, std::size_t model) {
  std::string id =
      fmt::format("{}{}-{}", recipe_of(config.experiment).architecture, hidden, name_of(role));
  if (!without.empty()) id += fmt::format("-{}", fmt::join(without, "_"));
  return id + fmt::format("-{:03}", model);
}

std::vector<Trial> trials_of(const RunConfig& config) {
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
