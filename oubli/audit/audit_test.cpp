#include "oubli/audit/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "oubli/audit/bootstrap.h"
#include "oubli/audit/model_figures.h"
#include "oubli/audit/test_populations.h"
#include "oubli/base/error.h"
#include "oubli/base/random.h"

namespace oubli {
namespace {

using testing::Case;
using ::testing::HasSubstr;
using testing::Made;
using testing::made_labels;
using testing::made_population;
using testing::made_samples;
using ::testing::Not;
using testing::quick;
using ::testing::ThrowsMessage;

TEST(Audit, SaysWhatIsWrongWithTheInput) {
  const auto expect = [](const Case& s, const char* message) {
    EXPECT_THAT([&] { (void)audit(s.input, quick()); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  {
    Case s;
    s.input.unseen = made_population({.all_columns = true}, 2, "unseen");
    expect(s, "(4 classes; wanted 3, one for every class retained): one column for every class");
  }
  {
    Case s;
    s.input.unseen = made_population({.classes = 6}, 2, "unseen");
    s.input.unseen.samples = s.input.seen.samples;
    expect(s, "must be of the same task");
  }
  {
    Case s;
    s.input.seen = made_population({.models = 1}, 1, "seen");
    expect(s, "needs at least two models");
  }
  {
    Case s;
    s.input.unseen = s.input.seen;
    expect(s, "hold the same logits");
  }
  {
    Case s;
    s.input.seen.read = [read = s.input.seen.read](std::size_t model, auto rows, auto out) {
      read(model == 7 ? 2 : model, rows, out);
    };
    expect(s, "seen: models 2 and 7 hold the same logits");
  }
  {
    Case s;
    s.input.features = {{"", made_population({}, 5, "features"), {}}};
    s.input.features[0].seen->columns = 0;
    expect(s, "features of 0 columns");
  }
  {
    Case s;
    s.input.unseen2 = s.input.unseen;
    expect(s, "hold the same logits");
  }
  {
    Case s;
    s.input.before = made_population({.all_columns = true}, 6, "before");
    s.input.before->read = [read = s.input.before->read](std::size_t model, auto rows, auto out) {
      read(model == 7 ? 2 : model, rows, out);
    };
    expect(s, "before: models 2 and 7 hold the same logits");
  }
  {
    Case s;
    s.labels[5] = 4;
    s.input.samples = made_samples(s.made, s.labels);
    expect(s, "sample 5 has label 4");
  }
  {
    Case s;
    std::ranges::replace(s.labels, 2U, 0U);
    s.input.samples = made_samples(s.made, s.labels);
    expect(s, "no sample of class 2: every audited class needs samples (--forgotten-only");
    AuditOptions forgotten_only = quick();
    forgotten_only.retained = false;
    EXPECT_NO_THROW((void)audit(s.input, forgotten_only));
  }
  {
    Case s;
    s.labels.pop_back();
    s.input.samples = made_samples(s.made, s.labels);
    expect(s, "80 samples, but there are 79 labels");
  }
  {
    Case s;
    s.input.before = made_population({.models = 9, .all_columns = true}, 1, "before");
    expect(s, "same models, in order");
    s.input.before = made_population({}, 7, "before");
    expect(s, "logits before unlearning have a column for every class");
  }
  {
    Case s;
    s.input.samples.forgotten = {};
    expect(s, "no forgotten class");
  }
}

// In whichever model, probed or not, and before any attack has run.
// More models than are compared each with each: one of them again, rounded to 11 bits, is found.
TEST(Audit, FindsAModelTwiceAmongMany) {
  constexpr std::size_t kModels = 3 * kComparedModels, kNumbers = 40;
  RandomStream random(1, task_id("many models"));
  PopulationPass a, b;
  for (PopulationPass* const pass : {&a, &b}) {
    pass->sketch = Matrix<float>(kModels, kNumbers);
    for (float& value : pass->sketch.flat()) value = static_cast<float>(3 * random.normal());
    for (std::size_t i = 0; i < kModels; ++i) pass->fingerprint.push_back(random.below(1ULL << 60));
  }
  EXPECT_FALSE(same_model(a, a));
  EXPECT_FALSE(same_model(a, b));
  for (std::size_t j = 0; j < kNumbers; ++j)
    b.sketch(501, j) = std::round(a.sketch(17, j) * 1024) / 1024;
  const auto across = same_model(a, b);
  ASSERT_TRUE(across);
  EXPECT_EQ(std::tuple(across->first, across->second, across->exactly),
            std::tuple(17U, 501U, false));
  std::ranges::copy(a.sketch.row(700), a.sketch.row(3).begin());
  a.fingerprint[3] = a.fingerprint[700];
  const auto within = same_model(a, a);
  ASSERT_TRUE(within);
  EXPECT_EQ(std::tuple(within->first, within->second, within->exactly), std::tuple(3U, 700U, true));
}

TEST(Audit, ChecksAllFeaturesFirst) {
  Case s;
  s.made.models = 12;
  s.input.seen = made_population(s.made, 1, "seen");
  s.input.unseen = made_population(s.made, 2, "unseen");
  s.input.features = {{"", {}, made_population(s.made, 5, "features")}};
  Population& features = *s.input.features[0].unseen;
  features.read = [read = features.read](std::size_t model, auto rows, auto out) {
    read(model, rows, out);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (model == 11 && rows[i] == 4) out(i, 2) = std::nanf("");
  };
  AuditOptions options = quick();
  std::size_t classes = 0;
  options.on_class = [&] { ++classes; };
  EXPECT_THAT([&] { (void)audit(s.input, options); },
              ThrowsMessage<Error>(HasSubstr("features: model 11, sample 4, column 2 is nan")));
  EXPECT_EQ(classes, 0U);
}

TEST(Audit, GivesEveryFigureOrTheReason) {
  Case s;
  const AuditResult result = audit(s.input, quick());
  ASSERT_EQ(result.leaks.classes.size(), 4U);
  EXPECT_TRUE(result.leaks.classes[1].forgotten);
  ASSERT_EQ(result.leaks.forgotten.size(), 3U);  // observers
  ASSERT_EQ(result.leaks.retained.size(), 3U);
  // 7 of 10 models of either population, 20 images each.
  EXPECT_EQ(result.leaks.classes[0].points_train, 2U * 7 * 20);
  EXPECT_EQ(result.leaks.classes[0].points_test, 2U * 3 * 20);
  EXPECT_FALSE(result.floor.has_value());
  EXPECT_THAT(result.floor_reason, HasSubstr("no second population"));
  EXPECT_THAT(result.flips.reason, HasSubstr("before unlearning"));
  const ObserverLeak& label = result.leaks.forgotten[2];
  EXPECT_EQ(label.observer, Observer::label);
  EXPECT_THAT(label.ks.reason, HasSubstr("label is not a number"));
  EXPECT_FALSE(label.ks.value.has_value());
  EXPECT_TRUE(label.attacks[0].advantage.value.has_value());
  EXPECT_FALSE(result.leaks.forgotten[1].ks_ones.value.has_value());
  EXPECT_TRUE(result.leaks.forgotten[0].ks_ones.value.has_value());
  ASSERT_TRUE(result.worst().has_value());
  EXPECT_EQ(result.worst()->label, 1U);
  for (const ObserverLeak& leak : result.leaks.forgotten)
    for (const AttackLeak& attack : leak.attacks)
      EXPECT_LE(*attack.advantage.value, *result.worst()->attack.advantage.value);

  const nlohmann::json json = result;
  EXPECT_EQ(json["format"], "oubli-audit");
  EXPECT_EQ(json["leaks"]["forgotten"][2]["ks"]["value"], nullptr);
  EXPECT_EQ(json["floor"]["reason"], result.floor_reason);
  const std::string text = to_text(result);
  EXPECT_THAT(text, HasSubstr("n/a, floor: no second population"));
  EXPECT_THAT(text, HasSubstr("(worst)"));
  EXPECT_THAT(text, HasSubstr("compare it with the floor, not\nwith 0"));
  EXPECT_THAT(json["options"]["intervals"].get<std::string>(), HasSubstr("not with 0"));
  const std::string csv = to_csv(result);
  // Per class and observer four attacks and three KS figures; and the header.
  EXPECT_EQ(std::ranges::count(csv, '\n'), 4 * (2 * (10 * 6 + 3) + 7 * 6 + 3) + 1);
  EXPECT_THAT(csv, HasSubstr(",reason,floor_reason\n"));
  EXPECT_THAT(csv, HasSubstr(",,,\"a label is not a number: there is nothing to project\","
                             "\"no second population of unseen models was given\"\n"));
}

// Nothing but samples of the forgotten class: what needs others is missing, and says so.
TEST(Audit, FiguresWithoutSamplesAreMissing) {
  Case s;
  std::ranges::fill(s.labels, 1U);
  s.input.samples = made_samples(s.made, s.labels);
  Made before = s.made;
  before.all_columns = true;
  s.input.before = made_population(before, 1, "before");
  s.input.features = {{"", {}, made_population(before, 5, "features")}};
  AuditOptions options = quick();
  options.retained = false;
  const AuditResult result = audit(s.input, options);
  for (const QualityFigures& quality : result.quality) {
    EXPECT_FALSE(quality.accuracy.has_value());
    EXPECT_FALSE(quality.loss.has_value());
    EXPECT_THAT(quality.reason, HasSubstr("no samples of retained classes"));
  }
  EXPECT_TRUE(result.flips.all.has_value());
  EXPECT_FALSE(result.flips.correct.has_value());
  EXPECT_THAT(result.flips.reason, HasSubstr("correct: 0 of 10 models"));
  EXPECT_THAT(result.probes[0].seen_reason, HasSubstr("no features of seen models"));
  EXPECT_THAT(result.probes[0].unseen_reason, HasSubstr("samples of other classes"));
  EXPECT_THAT(to_text(result), HasSubstr("n/a, seen: no samples of retained classes"));
  const nlohmann::json json = result;
  EXPECT_EQ(json["flips"]["correct"], nullptr);
  EXPECT_EQ(json["quality"][1]["accuracy"], nullptr);
  EXPECT_EQ(json["probes"][0]["unseen_reason"], result.probes[0].unseen_reason);
}

TEST(Audit, SaysWhyThereAreNoIntervals) {
  const auto with_models = [](std::size_t models) {
    Case s;
    s.made.models = models;
    s.input.seen = made_population(s.made, 1, "seen");
    s.input.unseen = made_population(s.made, 2, "unseen");
    return audit(s.input, quick());
  };
  const AuditResult two = with_models(2), three = with_models(3), seven = with_models(7);
  const Figure& lone = three.leaks.forgotten[0].attacks[0].advantage;
  EXPECT_TRUE(lone.value.has_value());
  EXPECT_FALSE(lone.low.has_value());
  EXPECT_THAT(lone.reason, HasSubstr("1 and 1 test models"));
  EXPECT_EQ(nlohmann::json(lone)["interval_reason"], lone.reason);
  EXPECT_THAT(to_text(three), HasSubstr("n/a, intervals of advantages, leak: 1 and 1 test models"));
  EXPECT_THAT(two.leaks.forgotten[0].ks.reason, HasSubstr("takes three"));
  EXPECT_THAT(to_text(two), HasSubstr("n/a, intervals of KS, leak: 2 and 2 models"));
  EXPECT_TRUE(seven.leaks.forgotten[0].attacks[0].advantage.low.has_value());
  EXPECT_TRUE(seven.leaks.forgotten[0].attacks[0].advantage.reason.empty());
}

TEST(Audit, NamesTheWorstOfSeveralClasses) {
  Case s;
  s.made.classes = 5;
  s.labels = made_labels(s.made);
  s.input.seen = made_population(s.made, 1, "seen");
  s.input.unseen = made_population(s.made, 2, "unseen");
  // Four columns for five classes made above; two forgotten ones leave three.
  s.input.seen.columns = s.input.unseen.columns = 3;
  for (Population* population : {&s.input.seen, &s.input.unseen})
    population->read = [wide = population->read](std::size_t model, auto rows, auto out) {
      Matrix<float> all(rows.size(), 4);
      wide(model, rows, all);
      for (std::size_t i = 0; i < rows.size(); ++i)
        std::ranges::copy(all.row(i).first(3), out.row(i).begin());
    };
  s.input.samples = {.labels = s.labels, .classes = 5, .forgotten = {1, 4}};
  const AuditResult result = audit(s.input, quick());
  const auto worst = result.worst();
  ASSERT_TRUE(worst.has_value());
  const nlohmann::json json = result;
  EXPECT_EQ(json["worst"]["class"], worst->label);
  EXPECT_EQ(json["worst"]["attack"], name_of(worst->attack.attack));
  EXPECT_EQ(json["worst"]["advantage"]["value"], *worst->attack.advantage.value);
  EXPECT_THAT(to_text(result), HasSubstr("forgotten (mean)"));
  // Each of them too, and the other classes not.
  for (const char* row : {"\n1                 logits", "\n4                 logits"})
    EXPECT_THAT(to_text(result), HasSubstr(row));
  EXPECT_THAT(to_text(result), Not(HasSubstr("\n2                 logits")));
  EXPECT_THAT(to_text(result),
              HasSubstr("Worst single figure: class " + std::to_string(worst->label) + ", "));
}

TEST(Audit, WarnsOfAFloorFromOtherNumbersOfModels) {
  Case s;
  const auto warnings = [&](std::size_t models) {
    Made made = s.made;
    made.models = models;
    s.input.unseen2 = made_population(made, 3, "unseen2");
    const AuditResult result = audit(s.input, quick());
    EXPECT_EQ(nlohmann::json(result)["warnings"].size(), result.warnings.size());
    EXPECT_EQ(nlohmann::json(result)["models"]["unseen2"], models);
    EXPECT_EQ(to_text(result).find("Warning: the floor") != std::string::npos,
              !result.warnings.empty());
    return result.warnings.size();
  };
  EXPECT_EQ(warnings(10), 0U);
  EXPECT_EQ(warnings(8), 0U);
  EXPECT_EQ(warnings(4), 1U);
  EXPECT_EQ(warnings(20), 1U);
}

TEST(Audit, ForgottenMeanIsTheClassAndRetainedMeanTheMean) {
  Case s;
  const AuditResult result = audit(s.input, quick());
  for (std::size_t o = 0; o < 3; ++o) {
    for (std::size_t a = 0; a < 4; ++a) {
      EXPECT_DOUBLE_EQ(*result.leaks.forgotten[o].attacks[a].advantage.value,
                       *result.leaks.classes[1].observers[o].attacks[a].advantage.value);
      double mean = 0;
      for (const std::size_t c : {0U, 2U, 3U})
        mean += *result.leaks.classes[c].observers[o].attacks[a].advantage.value / 3;
      EXPECT_NEAR(*result.leaks.retained[o].attacks[a].advantage.value, mean, 1e-12);
    }
    if (result.leaks.retained[o].observer == Observer::label) continue;
    for (const auto figure : {&ObserverLeak::ks, &ObserverLeak::ks_largest}) {
      double mean = 0;
      for (const std::size_t c : {0U, 2U, 3U})
        mean += *(result.leaks.classes[c].observers[o].*figure).value / 3;
      EXPECT_NEAR(*(result.leaks.retained[o].*figure).value, mean, 1e-12);
    }
  }
}

TEST(Audit, DoesNotDependOnTheNumberOfWorkers) {
  Case s;
  s.input.unseen2 = made_population(s.made, 3, "unseen2");
  AuditOptions options = quick();
  options.images_forgotten = 15;
  const nlohmann::json one = audit(s.input, options);
  options.workers = 3;
  EXPECT_EQ(one, nlohmann::json(audit(s.input, options)));
  options.seed = 4;
  EXPECT_NE(one["leaks"], nlohmann::json(audit(s.input, options))["leaks"]);
}

TEST(Audit, TakesAKnownFloor) {
  Case s;
  s.input.unseen2 = made_population(s.made, 3, "unseen2");
  const nlohmann::json computed = audit(s.input, quick());
  const Leaks floor = tell_apart(*s.input.unseen2, s.input.unseen, s.input.samples, quick());
  EXPECT_EQ(computed, nlohmann::json(audit(s.input, quick(), &floor)));
}

TEST(Audit, CountsFlipsAndDestinations) {
  // Two models, three samples, three classes of which class 2 is forgotten.
  const auto table = [](std::vector<std::vector<float>> models, std::size_t columns,
                        std::string name) {
    return Population{
        .name = std::move(name),
        .models = models.size(),
        .samples = models.front().size() / columns,
        .columns = columns,
        .read = [models, columns](std::size_t model, std::span<const std::uint32_t> rows,
                                  MatrixView<float> out) {
          for (std::size_t i = 0; i < rows.size(); ++i)
            std::copy_n(models[model].begin() + static_cast<std::ptrdiff_t>(rows[i] * columns),
                        columns, out.row(i).begin());
        }};
  };
  const std::vector<std::uint32_t> labels{0, 1, 2};
  AuditInput input{
      .seen = table({{9, 0, 9, 0, 0, 9}, {9, 0, 0, 9, 9, 0}}, 2, "seen"),
      .unseen = table({{8, 0, 0, 8, 8, 0}, {7, 0, 0, 7, 7, 0}}, 2, "unseen"),
      .unseen2 = {},
      .before = table({{9, 0, 0, 0, 9, 0, 3, 0, 9}, {8, 0, 0, 0, 8, 0, 3, 0, 8}}, 3, "before"),
      .features = {},
      .samples = {.labels = labels, .classes = 3, .forgotten = {2}},
      .class_names = {"a", "b", "c"}};
  const AuditResult result = audit(input, quick());
  // Model 0 answers 0, 0, 1 where naive deletion answers 0, 1, 0; model 1 the same as naive.
  EXPECT_DOUBLE_EQ(result.flips.all->mean, (2.0 / 3 + 0) / 2);
  EXPECT_DOUBLE_EQ(result.flips.forgotten->mean, 0.5);
  EXPECT_DOUBLE_EQ(result.flips.correct->mean, 0.25);
  EXPECT_EQ(result.quality[0].population, "before");
  EXPECT_DOUBLE_EQ(result.quality[0].accuracy->mean, 1);
  EXPECT_DOUBLE_EQ(result.quality[1].accuracy->mean, 0.75);
  EXPECT_NEAR(result.quality[1].accuracy->std, std::sqrt(0.125), 1e-12);
  const double right = std::log1p(std::exp(-9.0)), wrong = 9 + right;
  EXPECT_NEAR(result.quality[1].loss->mean, ((right + wrong) / 2 + right) / 2, 1e-12);
  ASSERT_EQ(result.misclassification.size(), 2U);
  EXPECT_DOUBLE_EQ(result.misclassification[0].shares[0].mean, 0.5);
  EXPECT_DOUBLE_EQ(result.misclassification[1].shares[0].mean, 1);
  EXPECT_THAT(to_text(result), HasSubstr("2 (c)"));
}

TEST(Audit, ProbesFeatures) {
  Case s;
  // Columns of signal 3 for the true class, the forgotten one included: features that know it.
  Made features = s.made;
  features.all_columns = true;
  features.per_class = s.made.per_class;
  s.input.features = {{"", made_population(features, 5, "features"), {}}};
  const AuditResult result = audit(s.input, quick());
  ASSERT_EQ(result.probes.size(), 1U);
  ASSERT_TRUE(result.probes[0].seen.has_value());
  EXPECT_GT(result.probes[0].seen->mean, 0.9);
  EXPECT_THAT(result.probes[0].sentence, HasSubstr("linear probe finds"));
  EXPECT_THAT(result.probes[0].sentence, HasSubstr("was not measured"));
  EXPECT_THAT(result.probes[0].sentence, HasSubstr("Probed: 10 of 10 seen models."));

  // Of many models only the first are probed, and it says so.
  features.models = 13;
  s.input.features[0].unseen = made_population(features, 6, "unseen features");
  const AuditResult both = audit(s.input, quick());
  EXPECT_EQ(both.probes[0].unseen_models, kProbedModels);
  EXPECT_THAT(to_text(both), HasSubstr("10 of 10 seen models and the first 10 of 13 unseen"));
  const nlohmann::json json = nlohmann::json(both)["probes"][0];
  EXPECT_EQ(json["seen_models"], 10);
  EXPECT_EQ(json["unseen_models"], 10);
  EXPECT_EQ(nlohmann::json(result)["probes"][0]["unseen_models"], 0);
}

TEST(Audit, FindsAClearLeakAndNamesTheDirection) {
  Case s;
  s.made.models = 20;
  s.made.per_class = 40;
  s.labels = made_labels(s.made);
  s.input.samples = made_samples(s.made, s.labels);
  s.input.unseen = made_population(s.made, 2, "unseen");
  Made shifted = s.made;
  shifted.shift_all = 2;  // along all-ones: visible in logits, not in probabilities
  s.input.seen = made_population(shifted, 1, "seen");
  const AuditResult result = audit(s.input, quick());
  // sqrt(3) * 2 apart: 2 Phi(1.73) - 1 = 0.917. 480 test points: standard error 0.018.
  EXPECT_NEAR(*result.leaks.forgotten[0].attacks[3].advantage.value, 0.917, 0.08);
  EXPECT_LT(*result.leaks.forgotten[0].attacks[3].advantage.low, 0.917);
  EXPECT_GT(*result.leaks.forgotten[0].attacks[3].advantage.high, 0.85);
  EXPECT_NEAR(*result.leaks.forgotten[0].ks_ones.value, 0.917, 0.08);
  EXPECT_LT(*result.leaks.forgotten[1].attacks[3].advantage.value, 0.25);
  EXPECT_LT(*result.leaks.retained[0].attacks[3].advantage.value, 0.25);
}

TEST(Bootstrap, KnowsStudentsT) {
  EXPECT_NEAR(student_t_975(1), 12.70620, 1e-4);  // tan(0.475 pi)
  EXPECT_NEAR(student_t_975(2), 4.30265, 1e-5);
  EXPECT_NEAR(student_t_975(3), 3.18245, 1e-5);
  EXPECT_NEAR(student_t_975(5), 2.57058, 1e-5);
  EXPECT_NEAR(student_t_975(9), 2.26216, 1e-5);
  EXPECT_NEAR(student_t_975(9.9999), student_t_975(10), 1e-3);
  EXPECT_NEAR(student_t_975(10), 2.22814, 2e-4);
  EXPECT_NEAR(student_t_975(29), 2.04523, 2e-5);
}

TEST(Bootstrap, IsWelchsIntervalForFewModels) {
  // Welch and Satterthwaite by hand: means 0.6 and 0.7, variances of the means 0.02 / 2 and
  // 0.01 / 3; (0.01 + 0.01 / 3)^2 / (0.01^2 / 1 + (0.01 / 3)^2 / 2) = 1.684 degrees. Values of
  // equal spread would have (1/2 + 1/3)^2 / (1/4 + 1/9/2) = 2.273.
  EXPECT_NEAR(welch_degrees(0.01, 2, 0.01 / 3, 3), 1.684, 0.001);
  EXPECT_NEAR(welch_degrees(0.001, 2, 0.01, 3), 2.273, 0.001);
  EXPECT_NEAR(welch_degrees(0, 3, 0, 3), 4, 1e-12);
  RandomStream random(1, 1);
  const std::vector<double> a{0.55, 0.65}, b{0.70, 0.72, 0.74};
  const auto [low, high] = ModelBootstrap(2, 3, 100, random).interval(a, b, 100'000);
  const double v1 = 0.005 / 2, v2 = 0.0004 / 3;
  const double half = student_t_975(welch_degrees(v1, 2, v2, 3)) * std::sqrt(v1 + v2);
  EXPECT_NEAR(low, 1.32 - half, 1e-12);
  EXPECT_NEAR(high, 1.32 + half, 1e-12);
}

TEST(Bootstrap, ModelsThatAgreeAreNotCertain) {
  // 60 answers of either kind, all right: with probability 0.05 or more if each is wrong with
  // 0.0248 (0.9752^120 = 0.05). An interval around 2 must reach that far down.
  for (const std::size_t models : {3U, 20U}) {
    RandomStream random(1, 1);
    const std::vector<double> right(models, 1);
    const ModelBootstrap bootstrap(models, models, 100, random);
    const auto [low, high] = bootstrap.interval(right, right, 60 / models);
    EXPECT_LT(low, 2 - 0.0248);
    EXPECT_GT(low, 1.8);
    EXPECT_EQ(high, 2);
  }
}

TEST(Bootstrap, IsImpossibleForOneModel) {
  RandomStream random(1, 1);
  EXPECT_FALSE(ModelBootstrap(1, 5, 100, random).possible());
  EXPECT_FALSE(ModelBootstrap(5, 5, 0, random).possible());
  EXPECT_TRUE(ModelBootstrap(2, 5, 100, random).possible());
}

TEST(Bootstrap, EqualsTheIntervalOfTheNormalDistribution) {
  // Means of 30 numbers are nearly normal: the interval is that of Student's t, up to the noise
  // of 20,000 resamples (1 %) and the skewness of the draw.
  RandomStream random(7, 7);
  std::vector<double> a(30), b(30);
  for (double& value : a) value = random.normal();
  for (double& value : b) value = random.normal();
  const ModelBootstrap bootstrap(30, 30, 20000, random);
  const auto [low, high] = bootstrap.interval(a, b, 150);
  const MeanStd sa = mean_std(a), sb = mean_std(b);
  const double half = student_t_975(58) * std::sqrt((sa.std * sa.std + sb.std * sb.std) / 30);
  EXPECT_NEAR(high - low, 2 * half, 0.08 * half);
}

}  // namespace
}  // namespace oubli
