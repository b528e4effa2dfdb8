#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "oubli/audit/population.h"
#include "oubli/audit/tell_apart.h"

namespace oubli {

// What an audit looks at of arrays that hold more classes, networks or answers than figures need: a
// stated part, spread evenly, so that time and memory grow no faster than the arrays. Audits of the
// usual size are looked at whole, and AuditOptions::all takes everything of any.

// Classes that attacks are made on.
inline constexpr std::size_t kAuditedForgotten = 32, kAuditedRetained = 64;
// Networks of either population that attacks are made of.
inline constexpr std::size_t kAuditedNetworks = 1000;
// Forgotten classes of which there are figures beside attacks: recognition, quality, probes.
inline constexpr std::size_t kMeasuredForgotten = 8;
// Pairs of a threshold and a network that the forgetting quality looks at, over the images of all
// those classes.
inline constexpr std::size_t kMostThresholdPairs = 1U << 24U;
// Directions of the KS statistic, and those of its jackknife: where there are more answers than
// kManyAnswers, so many for each column, since few columns have few directions that differ.
inline constexpr std::size_t kDirectionsPerColumn = 128, kJackknifePerColumn = 4;
inline constexpr std::size_t kManyAnswers = 100'000;
// Columns from which nearest neighbours compare every point with every other, and how many such
// comparisons of a column they make: pooled attacks see as many images as that allows.
inline constexpr std::size_t kManyColumns = 12;
inline constexpr double kMostComparisons = 4e10;

// `most` of 0 ... count - 1, the first among them; all if there are no more.
[[nodiscard]] std::vector<std::size_t> spread_evenly(std::size_t count, std::size_t most);

// Ascending.
struct AuditedClasses {
  std::vector<std::size_t> forgotten, retained;

  // Of both kinds, ascending.
  [[nodiscard]] std::vector<std::size_t> all() const;
};
[[nodiscard]] AuditedClasses audited_classes(const AuditSamples& samples,
                                             const AuditOptions& options);
// The forgotten classes of which there are figures beside attacks.
[[nodiscard]] std::vector<std::size_t> measured_classes(const AuditSamples& samples,
                                                        const AuditOptions& options);

// The networks that attacks are made of.
[[nodiscard]] Population audited_networks(const Population& population,
                                          const AuditOptions& options);

// Of the KS statistic and of its jackknife, between populations of `answers` rows.
struct DirectionCounts {
  std::size_t random = 0, jackknife = 0;
};
[[nodiscard]] DirectionCounts audited_directions(std::size_t columns, std::size_t answers,
                                                 const AuditOptions& options);

// Images of each of `classes` classes that the quality is computed from, of `networks` networks.
[[nodiscard]] std::size_t quality_images(std::size_t networks, std::size_t classes,
                                         const AuditOptions& options);

// Images per network that pooled attacks see of a class that has `images`, of `networks` networks
// of both populations: all, `wanted` if that is not 0, or fewer.
[[nodiscard]] std::size_t pooled_images(std::size_t images, std::size_t wanted,
                                        std::size_t networks, std::size_t columns,
                                        const AuditOptions& options);

// What of that falls short of all, in one sentence for people; empty if nothing does. The first two
// populations are those that attacks tell apart.
[[nodiscard]] std::string sampling_warning(const std::vector<const Population*>& populations,
                                           const AuditSamples& samples,
                                           const AuditOptions& options);

}  // namespace oubli
