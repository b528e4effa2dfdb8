#include "oubli/audit/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "oubli/audit/leak.h"
#include "oubli/audit/model_figures.h"
#include "oubli/base/error.h"
#include "oubli/base/workers.h"

namespace oubli {
namespace {

// Probing every model of a large population costs much and says little more.
constexpr std::size_t kProbedModels = 10;

void check_samples(const AuditSamples& samples, bool retained_too) {
  if (samples.forgotten.empty())
    fail(ErrorCode::usage, "no forgotten class is named: there is nothing to audit");
  if (samples.forgotten.size() >= samples.classes)
    fail(ErrorCode::usage, "all {} classes are forgotten: no logits are left", samples.classes);
  std::vector<std::size_t> counts(samples.classes);
  for (std::size_t i = 0; i < samples.labels.size(); ++i) {
    if (samples.labels[i] >= samples.classes)
      fail(ErrorCode::bad_input,
           "labels: sample {} has label {}, but there are {} classes (0 to {})", i,
           samples.labels[i], samples.classes, samples.classes - 1);
    ++counts[samples.labels[i]];
  }
  std::vector<std::size_t> absent;
  for (std::size_t label = 0; label < samples.classes; ++label) {
    const bool forgotten =
        std::ranges::binary_search(samples.forgotten, static_cast<std::uint32_t>(label));
    if (counts[label] == 0 && (forgotten || retained_too)) absent.push_back(label);
  }
  if (!absent.empty())
    fail(ErrorCode::bad_input,
         "labels: no sample of class {}: every audited class needs samples (to audit the forgotten "
         "classes alone, leave the retained ones out)",
         fmt::join(absent, ", "));
}

void check_population(const Population& population, const AuditSamples& samples,
                      std::size_t columns) {
  if (population.samples != samples.labels.size())
    fail(ErrorCode::bad_input, "{}: {} samples, but there are {} labels", population.name,
         population.samples, samples.labels.size());
  if (population.models < 2)
    fail(ErrorCode::bad_input,
         "{}: {} model; an audit compares populations and needs at least two models in each",
         population.name, population.models);
  if (population.columns == columns) return;
  const std::size_t k = samples.classes, kept = k - samples.forgotten.size();
  if (columns == kept && population.columns == k)
    fail_column_per_class(
        population, fmt::format("{} classes; wanted {}, one for every class retained", k, kept));
  if (columns == k)
    fail(ErrorCode::bad_input,
         "{}: {} columns, wanted {}: logits before unlearning have a column for every class",
         population.name, population.columns, columns);
  fail(ErrorCode::bad_input,
       "{}: {} columns, wanted {} ({} classes, of which {} forgotten): the populations must be of "
       "the same task",
       population.name, population.columns, columns, k, samples.forgotten.size());
}

void check_different(const Population& a, const PopulationPass& pass_a, const Population& b,
                     const PopulationPass& pass_b) {
  for (std::size_t i = 0; i < pass_a.fingerprint.size(); ++i)
    for (std::size_t j = 0; j < pass_b.fingerprint.size(); ++j)
      if (pass_a.fingerprint[i] == pass_b.fingerprint[j])
        fail(ErrorCode::bad_input,
             "{} (model {}) and {} (model {}) hold the same logits: the two populations must be "
             "different models; was one file named twice?",
             a.name, i, b.name, j);
}

// The same model to learn from and to be tested on is recognised, not told apart.
void check_distinct(const Population& population, const PopulationPass& pass) {
  for (std::size_t i = 0; i < pass.fingerprint.size(); ++i)
    for (std::size_t j = i + 1; j < pass.fingerprint.size(); ++j)
      if (pass.fingerprint[i] == pass.fingerprint[j])
        fail(ErrorCode::bad_input,
             "{}: models {} and {} hold the same logits: a model counts once; was it exported "
             "twice?",
             population.name, i, j);
}

void add_quality(AuditResult& result, const std::string& name, const PopulationPass& pass) {
  result.quality.push_back({.population = name,
                            .accuracy = mean_std(pass.accuracy),
                            .loss = mean_std(pass.loss),
                            .reason = {}});
}

void add_misclassification(AuditResult& result, const std::string& name,
                           const PopulationPass& pass) {
  for (std::size_t c = 0; c < pass.shares.size(); ++c) {
    Misclassification bars{.label = result.forgotten[c], .population = name, .shares = {}};
    for (const auto& per_model : pass.shares[c]) bars.shares.push_back(mean_std(per_model));
    result.misclassification.push_back(std::move(bars));
  }
}

// AUC of the linear read-out of the features, over the first models.
std::optional<MeanStd> probe(const Population& features, std::uint32_t label,
                             const AuditInput& input, const AuditOptions& options) {
  const std::size_t models = std::min(features.models, kProbedModels);
  std::vector<double> areas(models, -1);
  std::vector<std::uint32_t> rows(features.samples);
  std::iota(rows.begin(), rows.end(), 0U);
  const std::size_t forget[] = {label};
  run_tasks(
      models, options.workers,
      [&](std::size_t model, unsigned) {
        Matrix<float> x(rows.size(), features.columns);
        read_finite(features, model, rows, x);
        const auto leaks = measure_leaks(x, input.samples.labels, forget, options.seed);
        if (!leaks.empty() && leaks.front().readout) areas[model] = *leaks.front().readout;
      },
      options.stop);
  if (std::ranges::find(areas, -1.0) != areas.end()) return std::nullopt;
  return mean_std(areas);
}

void add_probes(AuditResult& result, const AuditInput& input, const AuditOptions& options) {
  for (const std::uint32_t label : result.forgotten) {
    ProbeFigures figures{.label = label, .seen = {}, .unseen = {}, .reason = {}, .sentence = {}};
    if (!input.seen_features) {
      figures.reason = "no features were given";
    } else {
      figures.seen = probe(*input.seen_features, label, input, options);
      if (!figures.seen)
        figures.reason = fmt::format("fewer than {} samples of the class", kReadoutSamples);
      if (input.unseen_features)
        figures.unseen = probe(*input.unseen_features, label, input, options);
    }
    if (figures.seen) {
      figures.sentence = fmt::format(
          "Whoever holds the file sees the features, and these are not changed by filtration: a "
          "linear "
          "probe finds the forgotten class in them with AUC {:.3f}",
          figures.seen->mean);
      figures.sentence +=
          figures.unseen
              ? fmt::format("; in networks that never saw the class it does so with AUC {:.3f}.",
                            figures.unseen->mean)
              : "; how well it does in networks that never saw the class was not measured (no "
                "features of unseen models were given).";
    }
    result.probes.push_back(std::move(figures));
  }
}

}  // namespace

std::optional<AuditResult::Worst> AuditResult::worst() const {
  std::optional<Worst> worst;
  for (const ClassLeaks& of_class : leaks.classes) {
    if (!of_class.forgotten) continue;
    for (const ObserverLeak& leak : of_class.observers)
      for (const AttackFigure& attack : leak.attacks)
        if (attack.advantage.value &&
            (!worst || *attack.advantage.value > *worst->attack.advantage.value))
          worst = {of_class.label, leak.observer, attack};
  }
  return worst;
}

AuditResult audit(const AuditInput& input, const AuditOptions& options, const Leaks* floor) {
  const AuditSamples& samples = input.samples;
  check_samples(samples, options.retained);
  const std::size_t kept = samples.classes - samples.forgotten.size();
  check_population(input.seen, samples, kept);
  check_population(input.unseen, samples, kept);
  if (input.unseen2) check_population(*input.unseen2, samples, kept);
  if (input.before) {
    check_population(*input.before, samples, samples.classes);
    if (input.before->models != input.seen.models)
      fail(ErrorCode::bad_input,
           "{}: {} models, but {} has {}: they must be the same models, in order",
           input.before->name, input.before->models, input.seen.name, input.seen.models);
  }
  for (const auto* features : {&input.seen_features, &input.unseen_features})
    if (*features) check_population(**features, samples, (*features)->columns);

  AuditResult result;
  result.models_seen = input.seen.models;
  result.models_unseen = input.unseen.models;
  result.samples = samples.labels.size();
  result.classes = samples.classes;
  result.forgotten = samples.forgotten;
  result.class_names = input.class_names;
  result.options = options;

  const PopulationPass seen = pass_over(input.seen, samples, options);
  const PopulationPass unseen = pass_over(input.unseen, samples, options);
  check_distinct(input.seen, seen);
  check_distinct(input.unseen, unseen);
  check_different(input.seen, seen, input.unseen, unseen);
  if (input.before)
    add_quality(result, "before", pass_over(*input.before, samples, options));
  else
    result.quality.push_back({.population = "before",
                              .accuracy = {},
                              .loss = {},
                              .reason = "no logits from before unlearning were given"});
  add_quality(result, "seen", seen);
  add_quality(result, "unseen", unseen);
  add_misclassification(result, "seen", seen);
  add_misclassification(result, "unseen", unseen);
  if (input.unseen2) {
    const PopulationPass unseen2 = pass_over(*input.unseen2, samples, options);
    check_distinct(*input.unseen2, unseen2);
    check_different(input.unseen, unseen, *input.unseen2, unseen2);
    check_different(input.seen, seen, *input.unseen2, unseen2);
    add_quality(result, "unseen2", unseen2);
  }
  if (input.before) {
    const FlipPass flips = flips_between(*input.before, input.seen, samples, options);
    result.flips = {mean_std(flips.all), mean_std(flips.forgotten), mean_std(flips.correct), {}};
  } else {
    result.flips.reason = "no logits from before unlearning were given";
  }

  result.leaks = tell_apart(input.seen, input.unseen, samples, options);
  if (floor != nullptr)
    result.floor = *floor;
  else if (input.unseen2)
    result.floor = tell_apart(*input.unseen2, input.unseen, samples, options);
  else
    result.floor_reason = "no second population of unseen models was given";
  add_probes(result, input, options);
  return result;
}

}  // namespace oubli
