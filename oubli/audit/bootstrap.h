#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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

  // The 95 % interval of mean(first) + mean(second), one number per model: percentiles of the
  // resampled value, moved outwards for small groups so that they cover as Student's t would
  // [Hesterberg, "What teachers should know about the bootstrap", 2015: the expanded percentile
  // interval].
  [[nodiscard]] std::pair<double, double> interval(std::span<const double> first,
                                                   std::span<const double> second) const;

 private:
  std::size_t first_, second_, resamples_;
  std::vector<std::uint32_t> draws_;  // resamples x (first + second)
};

// The upper 2.5 % point of Student's t (Cornish-Fisher; within 0.1 % from 5 degrees on).
[[nodiscard]] double student_t_975(double degrees);

}  // namespace oubli
