#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oubli/audit/figure.h"
#include "oubli/audit/population.h"
#include "oubli/audit/tell_apart.h"

namespace oubli {

// What one pass over a population tells: a number per model.
struct PopulationPass {
  std::vector<double> accuracy, loss;  // on samples of retained classes; empty if there are none
  std::vector<std::vector<std::vector<double>>> shares;  // [forgotten class][column][model]
  std::vector<std::uint64_t> fingerprint;                // of all the model's numbers
  Matrix<float> sketch;  // per model, its numbers for a few samples: equal up to rounding?
};

// Whether two models give the same numbers up to the rounding of a 16-bit float, judged by their
// sketches.
[[nodiscard]] bool alike(std::span<const float> a, std::span<const float> b);

// Reads every row once and checks that it is finite, and that a common offset has not taken its
// digits. columns = k' (retained classes in order) or k.
[[nodiscard]] PopulationPass pass_over(const Population& population, const AuditSamples& samples,
                                       const AuditOptions& options);

// Label flips of `after` (k' columns) against naive deletion, the retained columns of `before` (k
// columns): shares of samples, per model. `correct` leaves out models that get no retained sample
// right.
struct FlipPass {
  std::vector<double> all, forgotten, correct;
};
[[nodiscard]] FlipPass flips_between(const Population& before, const Population& after,
                                     const AuditSamples& samples, const AuditOptions& options);

}  // namespace oubli
