#include "oubli/audit/simultaneous.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "oubli/audit/bootstrap.h"
#include "oubli/audit/figure.h"
#include "oubli/base/error.h"
#include "oubli/base/random.h"

namespace oubli {
namespace {

constexpr std::size_t kDraws = 2000;  // the 95 % point of the maximum to about 2 %

// Degrees of freedom of a sum of means, by Welch and Satterthwaite, and no more than groups of
// equal spread would give: the larger group does not vouch for the smaller.
double degrees_of(std::span<const double> variances, std::span<const std::size_t> sizes) {
  const auto degrees = [&](auto variance) {
    double sum = 0, squares = 0;
    for (std::size_t g = 0; g < sizes.size(); ++g) {
      const double v = variance(g);
      sum += v;
      squares += v * v / static_cast<double>(sizes[g] - 1);
    }
    return squares > 0 ? sum * sum / squares : 0.0;
  };
  const double equal = degrees([&](std::size_t g) { return 1 / static_cast<double>(sizes[g]); });
  const double own = degrees([&](std::size_t g) { return variances[g]; });
  return own > 0 ? std::min(own, equal) : equal;
}

// The largest |sum of deviation x normal number| of each draw. deviations: figures x networks.
std::vector<double> largest_of_draws(const Eigen::MatrixXd& deviations, RandomStream& random) {
  // Only products of deviations matter: with more networks than figures, a square root of those
  // gives the same distribution from fewer random numbers.
  Eigen::MatrixXd factor = deviations;
  if (deviations.cols() > deviations.rows())
    factor = Eigen::HouseholderQR<Eigen::MatrixXd>(deviations.transpose())
                 .matrixQR()
                 .topRows(deviations.rows())
                 .triangularView<Eigen::Upper>()
                 .transpose();
  Eigen::MatrixXd normal(factor.cols(), static_cast<Eigen::Index>(kDraws));
  for (double& value : normal.reshaped()) value = random.normal();
  const Eigen::RowVectorXd largest = (factor * normal).cwiseAbs().colwise().maxCoeff();
  return {largest.begin(), largest.end()};
}

}  // namespace

SimultaneousBounds simultaneous_bounds(std::span<const GroupedFigure> figures, std::uint64_t seed) {
  SimultaneousBounds bounds;
  if (figures.empty()) return bounds;
  const std::size_t groups = figures[0].groups.size();
  std::vector<std::size_t> sizes;
  for (const auto& group : figures[0].groups) {
    OUBLI_ASSERT(group.size() > 1);
    sizes.push_back(group.size());
  }
  std::size_t networks = 0;
  for (const std::size_t size : sizes) networks += size;
  // Deviations, scaled so that multiplied by normal numbers and added they have the variance of the
  // figure, in units of its standard error.
  Eigen::MatrixXd deviations(static_cast<Eigen::Index>(figures.size()),
                             static_cast<Eigen::Index>(networks));
  double fewest_degrees = 1e9;
  for (std::size_t f = 0; f < figures.size(); ++f) {
    std::vector<double> variances(groups), scaled;
    double variance = 0;
    for (std::size_t g = 0; g < groups; ++g) {
      OUBLI_ASSERT(figures[f].groups[g].size() == sizes[g]);
      const MeanStd moments = mean_std(figures[f].groups[g]);
      const auto n = static_cast<double>(sizes[g]);
      variances[g] = moments.std * moments.std / n;
      variance += variances[g];
      for (const double value : figures[f].groups[g])
        scaled.push_back((value - moments.mean) / std::sqrt(n * (n - 1)));
    }
    const double error = std::sqrt(std::max(variance, figures[f].least_variance));
    bounds.error.push_back(error);
    for (std::size_t i = 0; i < networks; ++i)
      deviations(static_cast<Eigen::Index>(f), static_cast<Eigen::Index>(i)) =
          scaled[i] / (error > 0 ? error : 1);
    fewest_degrees = std::min(fewest_degrees, degrees_of(variances, sizes));
  }

  const auto degrees = std::max<std::size_t>(1, static_cast<std::size_t>(fewest_degrees));
  RandomStream random(seed, task_id("simultaneous"));
  std::vector<double> largest = largest_of_draws(deviations, random);
  for (double& maximum : largest) {
    double chi_square = 0;
    for (std::size_t d = 0; d < degrees; ++d) chi_square += std::pow(random.normal(), 2);
    maximum /= std::sqrt(chi_square / static_cast<double>(degrees));
  }
  std::ranges::sort(largest);
  // One figure alone is Student's; where deviations are all 0 only `least_variance` speaks.
  bounds.critical = std::max(largest[static_cast<std::size_t>(0.95 * kDraws)],
                             student_t_975(static_cast<double>(degrees)));
  for (const double error : bounds.error) bounds.half_width.push_back(bounds.critical * error);
  return bounds;
}

}  // namespace oubli
