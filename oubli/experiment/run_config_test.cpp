#include "oubli/experiment/run_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "oubli/base/error.h"

namespace oubli {
namespace {

RunConfig mnist(std::size_t models) {
  return {.experiment = "mnist",
          .seed = 7,
          .forget = {0},
          .parts = {{.hidden = 50, .models = models, .second = models}},
          .samples = {kAllSamples}};
}

std::set<std::string> ids(const std::vector<Trial>& trials) {
  std::set<std::string> result;
  for (const Trial& trial : trials) result.insert(trial.id);
  return result;
}

TEST(RunConfig, ThreePopulationsOfEveryPart) {
  const auto trials = trials_of(mnist(4));
  EXPECT_EQ(trials.size(), 12u);
  EXPECT_EQ(ids(trials).size(), 12u);
  EXPECT_EQ(trials[0].id, "mlp50-seen-000");
  EXPECT_EQ(trials[1].id, "mlp50-unseen-0-000");
  EXPECT_EQ(trials[2].id, "mlp50-second-0-000");
}

TEST(RunConfig, EveryTrialHasItsOwnRandomNumbers) {
  RunConfig config = mnist(20);
  config.each_class = 20;
  config.parts.push_back({.hidden = 64, .models = 5, .second = 2});
  const auto trials = trials_of(config);
  std::set<std::uint64_t> numbers;
  for (const Trial& trial : trials) numbers.insert(trial_number(trial));
  EXPECT_EQ(numbers.size(), trials.size());
}

TEST(RunConfig, MoreModelsOnlyAddTrials) {
  const auto few = trials_of(mnist(20));
  const auto many = trials_of(mnist(100));
  const auto all = ids(many);
  for (const Trial& trial : few) {
    EXPECT_TRUE(all.contains(trial.id));
    const auto same = std::ranges::find_if(many, [&](const Trial& t) { return t.id == trial.id; });
    EXPECT_EQ(trial_number(*same), trial_number(trial));
  }
  EXPECT_EQ(many.size() - few.size(), 240u);
}

TEST(RunConfig, EachClassInTurnAddsNineHundredNetworks) {
  RunConfig config = mnist(100);
  config.each_class = 100;
  const auto trials = trials_of(config);
  EXPECT_EQ(trials.size(), 300u + 900u);
  EXPECT_EQ(ids(trials).size(), trials.size());
}

TEST(RunConfig, MergeIsTheUnion) {
  RunConfig first = mnist(20);
  RunConfig second = mnist(100);
  second.parts.push_back({.hidden = 16, .models = 3, .second = 0});
  second.samples = {10, 1, kAllSamples};
  const RunConfig merged = merge(first, second);
  EXPECT_EQ(merged.parts, (std::vector<Part>{{16, 3, 0}, {50, 100, 100}}));
  EXPECT_EQ(merged.samples, (std::vector<SampleCount>{1, 10, kAllSamples}));
  EXPECT_EQ(merge(second, first), merged);
}

TEST(RunConfig, MergeRefusesAnotherSeed) {
  RunConfig other = mnist(20);
  other.seed = 8;
  try {
    (void)merge(mnist(20), other);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_NE(std::string(error.what()).find("--seed"), std::string::npos);
  }
}

TEST(RunConfig, ConfigSurvivesJson) {
  RunConfig config = mnist(20);
  config.each_class = 3;
  config.epochs = 2;
  config.explain = {0.07, 0.15};
  EXPECT_EQ(nlohmann::json(config).get<RunConfig>(), config);
  // Of a run that was begun before there was the method.
  nlohmann::json old = config;
  old.erase("explain");
  EXPECT_TRUE(old.get<RunConfig>().explain.empty());
  RunConfig wanted = config;
  wanted.explain = {0.1, 0.15};
  EXPECT_EQ(merge(config, wanted).explain, (std::vector{0.07, 0.1, 0.15}));
  // ... or several splits.
  config.splits = 10;
  EXPECT_EQ(nlohmann::json(config).get<RunConfig>(), config);
  old.erase("splits");
  EXPECT_EQ(old.get<RunConfig>().splits, 1U);
  EXPECT_EQ(merge(old.get<RunConfig>(), config).splits, 10U);
  old["explain"] = {0.0};
  EXPECT_THROW((void)old.get<RunConfig>(), Error);
}

TEST(RunConfig, CountsAreWholeNumbers) {
  const nlohmann::json good = mnist(20);
  for (const char* place : {"/seed", "/epochs", "/forget/0", "/parts/0/models", "/parts/0/second",
                            "/each_class", "/splits"}) {
    for (const double wrong : {2.5, -1.0, 1e30}) {
      nlohmann::json config = good;
      config[nlohmann::json::json_pointer(place)] = wrong;
      EXPECT_THROW((void)config.get<RunConfig>(), Error) << place << wrong;
    }
  }
}

TEST(RunConfig, SampleCountsAreNumbersFromOneOrAll) {
  EXPECT_EQ(sample_count_of("100"), SampleCount{100});
  EXPECT_EQ(sample_count_of("all"), kAllSamples);
  for (const char* wrong :
       {"", "0", "010", "-1", "+1", "1.5", "1e3", " 1", "ten", "99999999999999999999"}) {
    EXPECT_THROW((void)sample_count_of(wrong), Error) << wrong;
    nlohmann::json config = mnist(2);
    config["samples"] = {"1", wrong};
    EXPECT_THROW((void)config.get<RunConfig>(), Error) << wrong;
  }
}

TEST(RunConfig, UnknownExperimentIsUsage) { EXPECT_THROW((void)recipe_of("mnits"), Error); }

}  // namespace
}  // namespace oubli
