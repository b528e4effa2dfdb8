#include "oubli/audit/sampling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "oubli/audit/forgetting.h"
#include "oubli/audit/forgetting_quality.h"
#include "oubli/base/class_split.h"

namespace oubli {
namespace {

// Few directions give the error of the mean over many: they move together.
constexpr std::size_t kJackknifeDirections = 32;

std::vector<std::size_t> some_of(const std::vector<std::size_t>& classes, std::size_t most,
                                 const AuditOptions& options) {
  if (options.all) return classes;
  std::vector<std::size_t> some;
  for (const std::size_t place : spread_evenly(classes.size(), most))
    some.push_back(classes[place]);
  return some;
}

// The class with most images, and how many of them pooled attacks see.
struct Pooled {
  std::size_t images = 0, seen = 0;
};

Pooled most_pooled(std::size_t networks, std::size_t columns, const AuditSamples& samples,
                   std::span<const std::size_t> images, const AuditOptions& options) {
  Pooled most;
  for (const std::size_t label : audited_classes(samples, options).all()) {
    const bool forgotten = std::ranges::binary_search(samples.forgotten, label);
    const std::size_t wanted = forgotten ? options.images_forgotten : options.images_retained;
    const std::size_t asked = wanted == 0 ? images[label] : std::min(wanted, images[label]);
    const std::size_t seen = pooled_images(images[label], wanted, networks, columns, options);
    if (seen < asked && asked > most.images) most = {asked, seen};
  }
  return most;
}

}  // namespace

std::vector<std::size_t> spread_evenly(std::size_t count, std::size_t most) {
  const std::size_t taken = std::min(count, most);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < taken; ++i) places.push_back(i * count / taken);
  return places;
}

std::vector<std::size_t> AuditedClasses::all() const {
  std::vector<std::size_t> both;
  std::ranges::merge(forgotten, retained, std::back_inserter(both));
  return both;
}

AuditedClasses audited_classes(const AuditSamples& samples, const AuditOptions& options) {
  AuditedClasses audited{some_of(samples.forgotten, kAuditedForgotten, options), {}};
  if (options.retained)
    audited.retained = some_of(split_classes(samples.classes, samples.forgotten).retained,
                               kAuditedRetained, options);
  return audited;
}

std::vector<std::size_t> measured_classes(const AuditSamples& samples,
                                          const AuditOptions& options) {
  return some_of(audited_classes(samples, options).forgotten, kMeasuredForgotten, options);
}

Population audited_networks(const Population& population, const AuditOptions& options) {
  if (options.all || population.models <= kAuditedNetworks) return population;
  const std::vector<std::size_t> places = spread_evenly(population.models, kAuditedNetworks);
  Population some = population;
  some.models = places.size();
  some.read = [read = population.read, places](
                  std::size_t model, std::span<const std::uint32_t> samples,
                  MatrixView<float> out) { read(places[model], samples, out); };
  some.files.clear();
  for (const std::size_t model : places) some.files.push_back(population.model_name(model));
  return some;
}

DirectionCounts audited_directions(std::size_t columns, std::size_t answers,
                                   const AuditOptions& options) {
  const std::size_t random = options.directions, jackknife = std::min(random, kJackknifeDirections);
  if (options.all || answers <= kManyAnswers) return {random, jackknife};
  if (columns == 1)  // there and back are the same
    return {std::min<std::size_t>(random, 1), std::min<std::size_t>(jackknife, 1)};
  return {std::min(random, kDirectionsPerColumn * columns),
          std::min(jackknife, kJackknifePerColumn * columns)};
}

std::size_t quality_images(std::size_t networks, std::size_t classes, const AuditOptions& options) {
  const std::size_t thresholds = std::min(networks, kQualityThresholds);
  const std::size_t pairs = std::max<std::size_t>(1, networks * thresholds / 2 * classes);
  const std::size_t images = options.all ? kQualityImages : kMostThresholdPairs / pairs;
  return std::clamp<std::size_t>(images, 1, kQualityImages);
}

std::size_t pooled_images(std::size_t images, std::size_t wanted, std::size_t networks,
                          std::size_t columns, const AuditOptions& options) {
  const std::size_t asked = wanted == 0 ? images : std::min(wanted, images);
  if (options.all || columns < kManyColumns || networks == 0) return asked;
  const double points = std::sqrt(kMostComparisons / static_cast<double>(columns));
  const auto most = static_cast<std::size_t>(points / static_cast<double>(networks));
  return std::clamp<std::size_t>(most, 1, asked);
}

std::string sampling_warning(const std::vector<const Population*>& populations,
                             const AuditSamples& samples, const AuditOptions& options) {
  std::vector<std::string> parts;
  const auto add = [&](std::size_t taken, std::size_t of, const std::string& what) {
    if (taken < of) parts.push_back(fmt::format("{} of {} {}", taken, of, what));
  };
  const AuditedClasses audited = audited_classes(samples, options);
  add(audited.forgotten.size(), samples.forgotten.size(), "forgotten classes");
  if (options.retained)
    add(audited.retained.size(), samples.classes - samples.forgotten.size(), "retained classes");
  for (const Population* population : populations)
    add(audited_networks(*population, options).models, population->models,
        fmt::format("networks of {}", population->name));
  std::size_t networks = 0;  // that are told apart
  for (std::size_t side = 0; side < 2; ++side)
    networks += audited_networks(*populations[side], options).models;
  const std::size_t columns = populations.front()->columns;
  std::vector<std::size_t> images(samples.classes);
  for (const std::uint32_t label : samples.labels) ++images[label];
  const Pooled pooled = most_pooled(networks, columns, samples, images, options);
  add(pooled.seen, pooled.images,
      "images per network and class, for attacks that learn one rule for all images");
  add(audited_directions(columns, networks * samples.labels.size(), options).random,
      options.directions, "directions of the KS distance");
  const std::vector<std::size_t> measured = measured_classes(samples, options);
  add(measured.size(), samples.forgotten.size(), "forgotten classes in figures beside attacks");
  std::size_t of_class = 0;
  for (const std::size_t label : measured) of_class = std::max(of_class, images[label]);
  add(quality_images(networks, measured.size(), options), std::min(of_class, kQualityImages),
      "images of a class in the forgetting quality");
  if (parts.empty()) return {};
  return fmt::format(
      "of arrays this large an evenly spread part was looked at: {} (all of it: --all)",
      fmt::join(parts, ", "));
}

}  // namespace oubli
