#include "oubli/audit/iam.h"

#include <cmath>
#include <numbers>

#include "oubli/audit/figure.h"
#include "oubli/audit/forgetting_quality.h"
#include "oubli/base/error.h"
#include "oubli/base/largest.h"

namespace oubli {
namespace {

constexpr std::size_t kPlaces = 100;

// Distribution function of the Gumbel distribution with this mean and standard deviation; a step
// where there is no spread.
double gumbel(double value, double mean, double deviation) {
  if (deviation == 0) return value > mean ? 1 : value < mean ? 0 : 0.5;
  const double scale = std::sqrt(6.0) * deviation / std::numbers::pi;
  return std::exp(-std::exp(-(value - (mean - std::numbers::egamma * scale)) / scale));
}

}  // namespace

std::vector<double> interpolated_scores(std::span<const double> unlearned,
                                        std::span<const double> original,
                                        std::span<const double> retrained) {
  const std::size_t images = unlearned.size();
  OUBLI_ASSERT(images > 1 && original.size() == images && retrained.size() == images);
  std::vector<double> from(images), to(images), value(images), scores(images), place(images);
  for (std::size_t i = 0; i < images; ++i) {
    const double sign = original[i] >= retrained[i] ? 1 : -1;
    from[i] = sign * retrained[i];
    to[i] = sign * original[i];
    value[i] = sign * unlearned[i];
  }
  double weights = 0;
  for (std::size_t step = 0; step + 1 < kPlaces; ++step) {
    const double at = static_cast<double>(step) / (kPlaces - 1);
    const double weight = static_cast<double>(step + 1) / (kPlaces - 1);
    for (std::size_t i = 0; i < images; ++i) place[i] = from[i] + (to[i] - from[i]) * at;
    const auto n = static_cast<double>(images);
    const double deviation = mean_std(place).std * std::sqrt((n - 1) / n);
    for (std::size_t i = 0; i < images; ++i)
      scores[i] += weight * gumbel(value[i], place[i], deviation);
    weights += weight;
  }
  for (double& score : scores) score /= weights;
  return scores;
}

double interpolated_measure(MatrixView<const float> unlearned, MatrixView<const float> original,
                            MatrixView<const float> retrained) {
  std::vector<double> signals[3];
  for (std::size_t i = 0; i < retrained.rows(); ++i) {
    const auto row = retrained.row(i);
    const std::size_t answer = place_of_largest(row);
    signals[0].push_back(log_odds(unlearned.row(i), answer));
    signals[1].push_back(log_odds(original.row(i), answer));
    signals[2].push_back(log_odds(row, answer));
  }
  return mean_std(interpolated_scores(signals[0], signals[1], signals[2])).mean;
}

}  // namespace oubli
