#include "oubli/audit/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "oubli/audit/feature_figures.h"
#include "oubli/audit/model_figures.h"
#include "oubli/audit/recognition.h"
#include "oubli/audit/sampling.h"
#include "oubli/base/error.h"
#include "oubli/base/workers.h"

namespace oubli {
namespace {

constexpr const char* kNoneBefore = "no logits from before unlearning were given";

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
                      std::size_t columns, std::size_t fewest = 2) {
  if (population.samples != samples.labels.size())
    fail(ErrorCode::bad_input, "{}: {} samples, but there are {} labels", population.name,
         population.samples, samples.labels.size());
  if (population.models < fewest)
    fail(ErrorCode::bad_input,
         "{}: {} models; an audit compares populations and needs at least two models in each (a "
         "single retrained one, as --unseen, gives less)",
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
  if (const auto same = same_model(pass_a, pass_b))
    fail(ErrorCode::bad_input,
         "{} and {} hold the same logits{}: the two populations must be different models; was "
         "one file named twice?",
         a.model_name(same->first), b.model_name(same->second),
         same->exactly ? "" : " up to rounding");
}

// Labels in another order than the logits make every figure meaningless, and leave no other trace.
void warn_of_chance(AuditResult& result, const Population& unseen, const PopulationPass& pass,
                    std::size_t classes) {
  if (pass.accuracy.empty() || classes < 2) return;
  const double accuracy = mean_std(pass.accuracy).mean;
  if (accuracy >= std::min(0.5, 1.5 / static_cast<double>(classes))) return;
  result.warnings.push_back(fmt::format(
      "{} gives {:.1f} % of the samples of retained classes their label, near chance ({:.1f} %): "
      "are labels and logits in the same order?",
      unseen.name, 100 * accuracy, 100 / static_cast<double>(classes)));
}

// The same model to learn from and to be tested on is recognised, not told apart.
void check_distinct(const Population& population, const PopulationPass& pass) {
  if (const auto same = same_model(pass, pass))
    fail(ErrorCode::bad_input,
         "{} and {} hold the same logits: a model counts once; was it exported twice?",
         population.files.empty() ? fmt::format("{}: models {}", population.name, same->first)
                                  : population.model_name(same->first),
         population.files.empty() ? std::to_string(same->second)
                                  : population.model_name(same->second));
}

Matrix<float> features_of(const Population& features, std::size_t model) {
  std::vector<std::uint32_t> rows(features.samples);
  std::iota(rows.begin(), rows.end(), 0U);
  auto x = Matrix<float>::for_overwrite(rows.size(), features.columns);
  read_finite(features, model, rows, x);
  return x;
}

// All models, also those that are not probed, and before hours of attacks.
void check_values(const Population& features, const AuditOptions& options) {
  run_tasks(
      features.models, options.workers,
      [&](std::size_t model, unsigned) { static_cast<void>(features_of(features, model)); },
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

void add_misclassification(AuditResult& result, const std::string& name, const PopulationPass& pass,
                           std::span<const std::size_t> audited) {
  for (std::size_t c = 0; c < pass.shares.size(); ++c) {
    if (!std::ranges::binary_search(audited, result.forgotten[c])) continue;
    Misclassification bars{.label = result.forgotten[c], .population = name, .shares = {}};
    for (const auto& per_model : pass.shares[c]) bars.shares.push_back(mean_std(per_model));
    result.misclassification.push_back(std::move(bars));
  }
}

std::size_t probed_models(const Population& features) {
  return std::min(features.models, kProbedModels);
}

// A number for each of the first models: none if one of them has none.
template <typename Measure>
std::optional<MeanStd> over_models(const Population& features, const AuditOptions& options,
                                   const Measure& measure) {
  std::vector<std::optional<double>> found(probed_models(features));
  run_tasks(
      found.size(), options.workers,
      [&](std::size_t model, unsigned) {
        found[model] = measure(model, features_of(features, model));
      },
      options.stop);
  std::vector<double> values;
  for (const auto& value : found)
    if (value) values.push_back(*value);
  if (values.empty() || values.size() < found.size()) return std::nullopt;
  return mean_std(values);
}

// CKA of the models of one population with one model of another.
std::optional<MeanStd> cka_with(const Population& features, const Population& other,
                                const AuditOptions& options, bool skip_first) {
  const Matrix<float> reference = features_of(other, 0);
  if (skip_first && features.models < 2) return std::nullopt;
  const auto all = over_models(features, options, [&](std::size_t model, const Matrix<float>& x) {
    return skip_first && model == 0 ? std::optional(1.0) : linear_cka(x, reference);
  });
  if (!all || !skip_first) return all;
  // The model's likeness to itself, 1, is taken out of mean and spread again.
  const auto n = static_cast<double>(probed_models(features));
  const double mean = (all->mean * n - 1) / (n - 1);
  const double squares = all->std * all->std * (n - 1) - (1 - mean) * (1 - mean) * (n - 1) / n;
  return MeanStd{mean, n > 2 ? std::sqrt(std::max(0.0, squares) / (n - 2)) : 0.0};
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
std::string probed_sentence(const FeatureLayer& layer, const ProbeFigures& figures) {
  const auto of = [](std::size_t probed, const Population& features, const char* whose) {
    return fmt::format("{}{} of {} {} models", probed < features.models ? "the first " : "", probed,
                       features.models, whose);
  };
  std::vector<std::string> parts;
  if (figures.seen) parts.push_back(of(figures.seen_models, *layer.seen, "seen"));
  if (figures.unseen) parts.push_back(of(figures.unseen_models, *layer.unseen, "unseen"));
  return parts.empty() ? "" : fmt::format(" Probed: {}.", fmt::join(parts, " and "));
}

ProbeFigures probe_layer(const FeatureLayer& layer, std::size_t label, const AuditInput& input,
                         const AuditOptions& options) {
  ProbeFigures figures;
  figures.label = label;
  figures.layer = layer.name;
  const AuditSamples& samples = input.samples;
  const auto add = [&](const std::optional<Population>& features, const char* whose,
                       std::optional<MeanStd>& area, std::optional<MeanStd>& recall,
                       std::size_t& models, std::string& reason) {
    if (!features) {
      reason = fmt::format("no features of {} models were given", whose);
      return;
    }
    area = over_models(*features, options, [&](std::size_t, const Matrix<float>& x) {
      return probe_area(x, samples.labels, label, options.seed);
    });
    recall = over_models(*features, options, [&](std::size_t, const Matrix<float>& x) {
      return probe_recall(x, samples.labels, samples.classes, label, options.seed);
    });
    if (area)
      models = probed_models(*features);
    else
      reason = why_no_probe(samples, label);
  };
  add(layer.seen, "seen", figures.seen, figures.recall_seen, figures.seen_models,
      figures.seen_reason);
  add(layer.unseen, "unseen", figures.unseen, figures.recall_unseen, figures.unseen_models,
      figures.unseen_reason);
  if (layer.seen && layer.unseen)
    figures.cka = cka_with(*layer.seen, *layer.unseen, options, false);
  if (layer.unseen) figures.cka_floor = cka_with(*layer.unseen, *layer.unseen, options, true);
  if (layer.seen && layer.before)
    figures.cka_before =
        over_models(*layer.seen, options, [&](std::size_t model, const Matrix<float>& x) {
          return linear_cka(x, features_of(*layer.before, model));
        });
  figures.sentence = probe_sentence(figures) + probed_sentence(layer, figures);
  return figures;
}

void add_probes(AuditResult& result, const AuditInput& input, const AuditOptions& options) {
  for (const std::size_t label : measured_classes(input.samples, options)) {
    for (const FeatureLayer& layer : input.features)
      result.probes.push_back(probe_layer(layer, label, input, options));
    if (!input.features.empty()) continue;
    ProbeFigures none;
    none.label = label;
    none.seen_reason = none.unseen_reason = "no features were given";
    result.probes.push_back(std::move(none));
  }
}

// Of the networks that attacks are made of, too.
void add_forgetting(AuditResult& result, const AuditInput& input, const AuditOptions& options) {
  const auto some = [&](const std::optional<Population>& population) {
    return population ? std::optional(audited_networks(*population, options)) : std::nullopt;
  };
  const Population seen = audited_networks(input.seen, options),
                   unseen = audited_networks(input.unseen, options);
  const std::optional<Population> before = some(input.before), unseen2 = some(input.unseen2);
  for (const std::size_t label : measured_classes(input.samples, options))
    result.forgetting.push_back(forgetting_figures(
        {seen, unseen, before ? &*before : nullptr, unseen2 ? &*unseen2 : nullptr}, input.samples,
        label, options));
  std::vector<const Population*> populations{&input.seen, &input.unseen};
  if (input.unseen2) populations.push_back(&*input.unseen2);
  if (std::string warning = sampling_warning(populations, input.samples, options); !warning.empty())
    result.warnings.push_back(std::move(warning));
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

void check_features(const FeatureLayer& layer, const AuditSamples& samples) {
  for (const auto* features : {&layer.seen, &layer.unseen, &layer.before}) {
    if (!*features) continue;
    if ((*features)->columns == 0)
      fail(ErrorCode::bad_input, "{}: features of 0 columns", (*features)->name);
    check_population(**features, samples, (*features)->columns, 1);
  }
  if (layer.before && layer.seen && layer.before->models != layer.seen->models)
    fail(ErrorCode::bad_input, "{}: {} models, but {} of {}: each before and after",
         layer.before->name, layer.before->models, layer.seen->models, layer.seen->name);
}

// What can be said before any array is read.
void check_shapes(const AuditInput& input, const AuditOptions& options) {
  const AuditSamples& samples = input.samples;
  check_samples(samples, options.retained);
  const std::size_t kept = samples.classes - samples.forgotten.size();
  const bool single = input.unseen.models == 1;
  if (single && input.unseen2)
    fail(ErrorCode::bad_input, "{}: {} models, but {} has a single one: give all of them as one",
         input.unseen2->name, input.unseen2->models, input.unseen.name);
  check_population(input.seen, samples, kept, single ? 1 : 2);
  check_population(input.unseen, samples, kept, 1);
  if (input.unseen2) check_population(*input.unseen2, samples, kept);
  if (input.before) {
    check_population(*input.before, samples, samples.classes, single ? 1 : 2);
    if (input.before->models != input.seen.models)
      fail(ErrorCode::bad_input,
           "{}: {} models, but {} has {}: they must be the same models, in order",
           input.before->name, input.before->models, input.seen.name, input.seen.models);
  }
  for (const FeatureLayer& layer : input.features) check_features(layer, samples);
}

// Accuracy, loss and where inputs of forgotten classes go, of every population, each of which is
// read once; refuses populations that repeat themselves or each other.
void add_populations(AuditResult& result, const AuditInput& input, const AuditOptions& options) {
  const AuditSamples& samples = input.samples;
  const PopulationPass seen = pass_over(input.seen, samples, options);
  const PopulationPass unseen = pass_over(input.unseen, samples, options);
  check_distinct(input.seen, seen);
  check_distinct(input.unseen, unseen);
  check_different(input.seen, seen, input.unseen, unseen);
  for (const FeatureLayer& layer : input.features)
    for (const auto* features : {&layer.seen, &layer.unseen, &layer.before})
      if (*features) check_values(**features, options);
  if (input.before) {
    const PopulationPass before = pass_over(*input.before, samples, options);
    check_distinct(*input.before, before);
    add_quality(result, "before", before);
  } else {
    result.quality.push_back(
        {.population = "before", .accuracy = {}, .loss = {}, .reason = kNoneBefore});
  }
  add_quality(result, "seen", seen);
  add_quality(result, "unseen", unseen);
  warn_of_chance(result, input.unseen, unseen, samples.classes - samples.forgotten.size());
  const std::vector<std::size_t> audited = audited_classes(samples, options).forgotten;
  add_misclassification(result, "seen", seen, audited);
  add_misclassification(result, "unseen", unseen, audited);
  if (input.unseen2) {
    const PopulationPass unseen2 = pass_over(*input.unseen2, samples, options);
    check_distinct(*input.unseen2, unseen2);
    check_different(input.unseen, unseen, *input.unseen2, unseen2);
    check_different(input.seen, seen, *input.unseen2, unseen2);
    add_quality(result, "unseen2", unseen2);
  }
}

void add_flips(AuditResult& result, const AuditInput& input, const AuditOptions& options) {
  if (!input.before) {
    result.flips.reason = kNoneBefore;
    return;
  }
  const FlipPass flips = flips_between(*input.before, input.seen, input.samples, options);
  result.flips = {mean_std(flips.all), mean_std(flips.forgotten), {}, {}};
  if (!flips.correct.empty()) result.flips.correct = mean_std(flips.correct);
  if (flips.correct.size() < input.seen.models)
    result.flips.reason =
        fmt::format("correct: {} of {} models label a retained sample rightly by naive deletion",
                    flips.correct.size(), input.seen.models);
}

void add_leaks(AuditResult& result, const AuditInput& input, const AuditOptions& options,
               const Leaks* floor) {
  if (input.unseen.models == 1) {
    result.leaks_reason = result.floor_reason = result.verdict.reason =
        "a single unseen model: no attack can learn from it and be tested, so there are no "
        "advantages, no distances, no floor and no verdict; two of them are the least, and six "
        "test models give intervals worth the name";
    return;
  }
  result.leaks = tell_apart(input.seen, input.unseen, input.samples, options);
  if (floor != nullptr)
    result.floor = *floor;
  else if (input.unseen2)
    result.floor = tell_apart(*input.unseen2, input.unseen, input.samples, options);
  else
    result.floor_reason = "no second population of unseen models was given";
  result.verdict = judge(result.leaks, result.floor ? &*result.floor : nullptr, options.seed);
}

}  // namespace

AuditResult audit(const AuditInput& input, const AuditOptions& options, const Leaks* floor) {
  check_shapes(input, options);
  const AuditSamples& samples = input.samples;
  AuditResult result;
  result.models_seen = input.seen.models;
  result.models_unseen = input.unseen.models;
  result.samples = samples.labels.size();
  result.classes = samples.classes;
  result.forgotten = samples.forgotten;
  result.class_names = input.class_names;
  result.options = options;
  add_populations(result, input, options);
  add_flips(result, input, options);
  add_forgetting(result, input, options);
  add_leaks(result, input, options, floor);
  add_probes(result, input, options);
  if (input.unseen2) warn_of_sizes(result, input);
  return result;
}

}  // namespace oubli
