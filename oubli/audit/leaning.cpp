#include "oubli/audit/leaning.h"

#include <cmath>
#include <limits>

namespace oubli {

double Leaning::deviations(const Moments& a, const Moments& b) {
  const auto n = static_cast<double>(a.count), m = static_cast<double>(b.count);
  const double difference = a.mean - b.mean;
  const double variance = a.count + b.count > 2 ? (a.squares + b.squares) / (n + m - 2) : 0;
  const double deviation = std::sqrt(variance * (1 / n + 1 / m));
  if (deviation > 0 || std::isnan(difference)) return difference / deviation;
  return difference == 0 ? 0 : std::copysign(std::numeric_limits<double>::infinity(), difference);
}

std::optional<Leaning::Pair> Leaning::least() const {
  std::optional<Pair> least;
  for (std::size_t other = 0; other < own_.size(); ++other) {
    if (own_[other].count == 0 || others_[other].count == 0) continue;
    const Pair pair{static_cast<std::uint32_t>(other), deviations(own_[other], others_[other])};
    if (!least || !(pair.deviations >= least->deviations)) least = pair;
  }
  return least;
}

}  // namespace oubli
