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

// Model `first` of one population and `second` of another, or of the same.
struct SameModel {
  std::size_t first = 0, second = 0;
  bool exactly = false;
};
// The first two models that give the same numbers, or the same up to the rounding of a 16-bit float
// as far as their sketches show; `a` and `b` may be one population. Among more than
// kComparedModels models, each is compared with so many that are nearest to it in one direction,
// so that the time grows with their number and not with its square.
inline constexpr std::size_t kComparedModels = 256;
[[nodiscard]] std::optional<SameModel> same_model(const PopulationPass& a, const PopulationPass& b);

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
