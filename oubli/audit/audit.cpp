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
  bool only_retained = true;
  for (std::size_t label = 0; label < samples.classes; ++label) {
    const bool forgotten = std::ranges::binary_search(samples.forgotten, label);
    if (counts[label] != 0 || !(forgotten || retained_too)) continue;
    absent.push_back(label);
    only_retained = only_retained && !forgotten;
  }
  if (!absent.empty())
    fail(ErrorCode::bad_input, "labels: no sample of class {}: every audited class needs samples{}",
         fmt::join(absent, ", "),
         only_retained ? " (--forgotten-only leaves the retained ones out)" : "");
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
             "{} and {} hold the same logits: the two populations must be different models; was "
             "one file named twice?",
             a.model_name(i), b.model_name(j));
}

// The same model to learn from and to be tested on is recognised, not told apart.
void check_distinct(const Population& population, const PopulationPass& pass) {
  for (std::size_t i = 0; i < pass.fingerprint.size(); ++i)
    for (std::size_t j = i + 1; j < pass.fingerprint.size(); ++j)
      if (pass.fingerprint[i] == pass.fingerprint[j])
        fail(ErrorCode::bad_input,
             "{} and {} hold the same logits: a model counts once; was it exported twice?",
             population.files.empty() ? fmt::format("{}: models {}", population.name, i)
                                      : population.model_name(i),
             population.files.empty() ? std::to_string(j) : population.model_name(j));
}

// All models, also those that are not probed, and before hours of attacks.
void check_values(const Population& features, const AuditOptions& options) {
  std::vector<std::uint32_t> rows(features.samples);
  std::iota(rows.begin(), rows.end(), 0U);
  run_tasks(
      features.models, options.workers,
      [&](std::size_t model, unsigned) {
        auto x = Matrix<float>::for_overwrite(rows.size(), features.columns);
        read_finite(features, model, rows, x);
      },
      options.stop);
}

void add_quality(AuditResult& result, const std::string& name, const PopulationPass& pass) {
  QualityFigures figures{.population = name, .accuracy = {}, .loss = {}, .reason = {}};
  if (pass.accuracy.empty()) {
    figures.reason = "no samples of retained classes";
  } else {
    figures.accuracy = mean_std(pass.accuracy);
    figures.loss = mean_std(pass.loss);
  }
  result.quality.push_back(std::move(figures));
}

void add_misclassification(AuditResult& result, const std::string& name,
                           const PopulationPass& pass) {
  for (std::size_t c = 0; c < pass.shares.size(); ++c) {
    Misclassification bars{.label = result.forgotten[c], .population = name, .shares = {}};
    for (const auto& per_model : pass.shares[c]) bars.shares.push_back(mean_std(per_model));
    result.misclassification.push_back(std::move(bars));
  }
}

std::size_t probed_models(const Population& features) {
  return std::min(features.models, kProbedModels);
}

// AUC of the linear read-out of the features, over the first models.
std::optional<MeanStd> probe(const Population& features, std::size_t label, const AuditInput& input,
                             const AuditOptions& options) {
  std::vector<double> areas(probed_models(features), -1);
  std::vector<std::uint32_t> rows(features.samples);
  std::iota(rows.begin(), rows.end(), 0U);
  run_tasks(
      areas.size(), options.workers,
      [&](std::size_t model, unsigned) {
        Matrix<float> x(rows.size(), features.columns);
        read_finite(features, model, rows, x);
        areas[model] = probe_area(x, input.samples.labels, label, options.seed).value_or(-1);
      },
      options.stop);
  if (std::ranges::find(areas, -1.0) != areas.end()) return std::nullopt;
  return mean_std(areas);
}

std::string why_no_probe(const AuditSamples& samples, std::size_t label) {
  const auto own = static_cast<std::size_t>(std::ranges::count(samples.labels, label));
  if (own < kReadoutSamples)
    return fmt::format("fewer than {} samples of the class", kReadoutSamples);
  if (samples.labels.size() - own < kReadoutSamples)
    return fmt::format("fewer than {} samples of other classes", kReadoutSamples);
  return "the probe gave no number";
}

std::string probe_sentence(const ProbeFigures& figures) {
  constexpr const char* kUnchanged =
      "Whoever holds the file sees the features, and these are not changed by filtration: a linear "
      "probe finds the forgotten class in ";
  if (figures.seen && figures.unseen)
    return fmt::format(
        "{}them with AUC {:.3f}; in networks that never saw the class it does so with AUC {:.3f}.",
        kUnchanged, figures.seen->mean, figures.unseen->mean);
  if (figures.seen)
    return fmt::format(
        "{}them with AUC {:.3f}; how well it does in networks that never saw the class was not "
        "measured ({}).",
        kUnchanged, figures.seen->mean, figures.unseen_reason);
  if (figures.unseen)
    return fmt::format(
        "{}those of networks that never saw it with AUC {:.3f}; how well it does in networks that "
        "saw the class was not measured ({}).",
        kUnchanged, figures.unseen->mean, figures.seen_reason);
  return {};
}

// Not all models of a large population are probed: how many.
std::string probed_sentence(const AuditInput& input, const ProbeFigures& figures) {
  const auto of = [](std::size_t probed, const Population& features, const char* whose) {
    return fmt::format("{}{} of {} {} models", probed < features.models ? "the first " : "", probed,
                       features.models, whose);
  };
  std::vector<std::string> parts;
  if (figures.seen) parts.push_back(of(figures.seen_models, *input.seen_features, "seen"));
  if (figures.unseen) parts.push_back(of(figures.unseen_models, *input.unseen_features, "unseen"));
  return parts.empty() ? "" : fmt::format(" Probed: {}.", fmt::join(parts, " and "));
}

void add_probes(AuditResult& result, const AuditInput& input, const AuditOptions& options) {
  for (const std::size_t label : result.forgotten) {
    ProbeFigures figures;
    figures.label = label;
    const auto add = [&](const std::optional<Population>& features, const char* whose,
                         std::optional<MeanStd>& figure, std::size_t& models, std::string& reason) {
      if (!features) {
        reason = fmt::format("no features of {} models were given", whose);
        return;
      }
      figure = probe(*features, label, input, options);
      if (figure)
        models = probed_models(*features);
      else
        reason = why_no_probe(input.samples, label);
    };
    add(input.seen_features, "seen", figures.seen, figures.seen_models, figures.seen_reason);
    add(input.unseen_features, "unseen", figures.unseen, figures.unseen_models,
        figures.unseen_reason);
    if (!input.seen_features && !input.unseen_features)
      figures.seen_reason = figures.unseen_reason = "no features were given";
    figures.sentence = probe_sentence(figures) + probed_sentence(input, figures);
    result.probes.push_back(std::move(figures));
  }
}

// The floor has the second unseen population in the place of the seen one.
void warn_of_sizes(AuditResult& result, const AuditInput& input) {
  const std::size_t seen = input.seen.models, unseen2 = input.unseen2->models;
  result.models_unseen2 = unseen2;
  const auto ratio = static_cast<double>(unseen2) / static_cast<double>(seen);
  if (ratio >= 0.8 && ratio <= 1.25) return;
  result.warnings.push_back(fmt::format(
      "the floor is not comparable: it has {} models where the leak has {}. KS distances grow as "
      "there are fewer models, and attacks learn less from them; take as many models of {} as of "
      "{}",
      unseen2, seen, input.unseen2->name, input.seen.name));
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
    if (*features) {
      if ((*features)->columns == 0)
        fail(ErrorCode::bad_input, "{}: features of 0 columns", (*features)->name);
      check_population(**features, samples, (*features)->columns);
    }

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
  for (const auto* features : {&input.seen_features, &input.unseen_features})
    if (*features) check_values(**features, options);
  if (input.before) {
    const PopulationPass before = pass_over(*input.before, samples, options);
    check_distinct(*input.before, before);
    add_quality(result, "before", before);
  } else {
    result.quality.push_back({.population = "before",
                              .accuracy = {},
                              .loss = {},
                              .reason = "no logits from before unlearning were given"});
  }
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
    result.flips = {mean_std(flips.all), mean_std(flips.forgotten), {}, {}};
    if (!flips.correct.empty()) result.flips.correct = mean_std(flips.correct);
    if (flips.correct.size() < input.seen.models)
      result.flips.reason =
          fmt::format("correct: {} of {} models label a retained sample rightly by naive deletion",
                      flips.correct.size(), input.seen.models);
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
  if (input.unseen2) warn_of_sizes(result, input);
  return result;
}

}  // namespace oubli
