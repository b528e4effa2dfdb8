#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "oubli/base/random.h"

namespace oubli {

// Bootstrap over models. The same resamples serve every figure, so that figures of one audit can be
// averaged over classes before their interval is taken: classes share their models.
class ModelBootstrap {
 public:
  // Two independent groups of models (seen, unseen); `resamples` draws with replacement of each.
  ModelBootstrap(std::size_t first, std::size_t second, std::size_t resamples,
                 RandomStream& random);

  [[nodiscard]] bool possible() const;
  [[nodiscard]] std::string why_impossible() const;
  [[nodiscard]] std::size_t resamples() const { return resamples_; }
  // Which models of the first (0) or second (1) group one resample holds.
  [[nodiscard]] std::span<const std::uint32_t> drawn(std::size_t resample, std::size_t group) const;

  // The 95 % interval of mean(first) + mean(second), shares of right answers per model, each out of
  // `images`. With kFewModels or more of both: percentiles of the resampled value, moved outwards
  // for small groups so that they cover as Student's t would [Hesterberg, "What teachers should
  // know about the bootstrap", 2015: the expanded percentile interval]. With fewer, percentiles
  // cannot leave the range of what was drawn, and the interval is Welch's; so it is where all
  // models have the same share.
  [[nodiscard]] std::pair<double, double> interval(std::span<const double> first,
                                                   std::span<const double> second,
                                                   std::size_t images) const;

 private:
  std::size_t first_, second_, resamples_;
  std::vector<std::uint32_t> draws_;  // resamples x (first + second)
};

// Below this many test models in either group an interval is Welch's. Simulated coverage of "95 %"
// (audit_statistical_test.cpp): 3 and 3 models 0.96 where percentiles had 0.87, 4 and 4 0.95
// (0.93), 3 and 30 0.96 (0.85); 2 and 2 0.97 (0.69), 2 and 30 1.00 (0.78).
inline constexpr std::size_t kFewModels = 6;

// The variance of the mean of shares of right answers, each out of `images`: at least what as many
// independent images would have, as models that happen to agree do not make a figure certain.
[[nodiscard]] double variance_of_share(std::span<const double> shares, std::size_t images);

// mean(first) + mean(second) -+ t times the standard error, within what shares can be.
[[nodiscard]] std::pair<double, double> welch_interval(std::span<const double> first,
                                                       std::span<const double> second,
                                                       std::size_t images);

// Degrees of freedom of a sum of two means of n1 and n2 values with variances v1 and v2 (of the
// means): Welch and Satterthwaite's, and no more than values of equal spread would give. Two or
// three values often look as if they hardly spread, and the larger group must not vouch for them
// then.
[[nodiscard]] double welch_degrees(double v1, std::size_t n1, double v2, std::size_t n2);

// Half of the 95 % interval of the sum or difference of two such means: t times the standard error.
[[nodiscard]] double welch_half_width(double v1, std::size_t n1, double v2, std::size_t n2);

// The upper 2.5 % point of Student's t, from 1 degree of freedom on; within 0.01 %.
[[nodiscard]] double student_t_975(double degrees);

}  // namespace oubli
