#include "oubli/audit/bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "oubli/audit/figure.h"
#include "oubli/base/error.h"

namespace oubli {

ModelBootstrap::ModelBootstrap(std::size_t first, std::size_t second, std::size_t resamples,
                               RandomStream& random)
    : first_(first), second_(second), resamples_(resamples), draws_(resamples * (first + second)) {
  for (std::size_t i = 0; i < draws_.size(); ++i)
    draws_[i] =
        static_cast<std::uint32_t>(random.below(i % (first + second) < first ? first : second));
}

bool ModelBootstrap::possible() const { return resamples_ > 0 && first_ > 1 && second_ > 1; }

std::string ModelBootstrap::why_impossible() const {
  if (possible()) return {};
  if (resamples_ == 0) return "no intervals were asked for";
  return fmt::format("{} and {} test models: it takes two of either population", first_, second_);
}

std::span<const std::uint32_t> ModelBootstrap::drawn(std::size_t resample,
                                                     std::size_t group) const {
  const std::span<const std::uint32_t> both(draws_.data() + resample * (first_ + second_),
                                            first_ + second_);
  return group == 0 ? both.first(first_) : both.last(second_);
}

namespace {

// P(|T| < sqrt(degrees) tan(angle)): t = sqrt(degrees) tan(x) makes the density a power of a
// cosine.
double student_t_within(double degrees, double angle) {
  constexpr int kSteps = 128;  // Simpson's rule: ten digits
  const double step = angle / kSteps;
  double sum = 1 + std::pow(std::cos(angle), degrees - 1);
  for (int i = 1; i < kSteps; ++i)
    sum += (i % 2 == 1 ? 4 : 2) * std::pow(std::cos(i * step), degrees - 1);
  const double scale = std::exp(std::lgamma((degrees + 1) / 2) - std::lgamma(degrees / 2)) /
                       std::sqrt(std::numbers::pi);
  return 2 * scale * sum * step / 3;
}

bool all_equal(std::span<const double> values) {
  return std::ranges::adjacent_find(values, std::ranges::not_equal_to{}) == values.end();
}

}  // namespace

double student_t_975(double degrees) {
  if (degrees < 10) {
    double low = 0, high = std::numbers::pi / 2;
    for (int halving = 0; halving < 50; ++halving) {
      const double middle = (low + high) / 2;
      (student_t_within(degrees, middle) < 0.95 ? low : high) = middle;
    }
    return std::sqrt(degrees) * std::tan(low);
  }
  // Cornish and Fisher's series.
  constexpr double z = 1.959963984540054;
  const double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees * degrees) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * degrees * degrees * degrees);
}

double welch_degrees(double v1, std::size_t n1, double v2, std::size_t n2) {
  OUBLI_ASSERT(n1 > 1 && n2 > 1);
  const auto a = static_cast<double>(n1), b = static_cast<double>(n2);
  const auto degrees = [&](double x, double y) {
    return (x + y) * (x + y) / (x * x / (a - 1) + y * y / (b - 1));
  };
  const double equal_spread = degrees(1 / a, 1 / b);
  return v1 + v2 > 0 ? std::min(degrees(v1, v2), equal_spread) : equal_spread;
}

double welch_half_width(double v1, std::size_t n1, double v2, std::size_t n2) {
  return student_t_975(welch_degrees(v1, n1, v2, n2)) * std::sqrt(v1 + v2);
}

double variance_of_share(std::span<const double> shares, std::size_t images) {
  const MeanStd figure = mean_std(shares);
  const auto models = static_cast<double>(shares.size());
  const double answers = models * static_cast<double>(images);
  // One more right and one more wrong answer: none wrong does not mean that none ever is.
  const double right = (figure.mean * answers + 1) / (answers + 2);
  return std::max(figure.std * figure.std / models, right * (1 - right) / answers);
}

std::pair<double, double> welch_interval(std::span<const double> first,
                                         std::span<const double> second, std::size_t images) {
  const double v1 = variance_of_share(first, images), v2 = variance_of_share(second, images);
  const double middle = mean_std(first).mean + mean_std(second).mean;
  const double half = welch_half_width(v1, first.size(), v2, second.size());
  return {std::max(0.0, middle - half), std::min(2.0, middle + half)};
}

std::pair<double, double> ModelBootstrap::interval(std::span<const double> first,
                                                   std::span<const double> second,
                                                   std::size_t images) const {
  OUBLI_ASSERT(possible() && first.size() == first_ && second.size() == second_);
  if (std::min(first_, second_) < kFewModels || (all_equal(first) && all_equal(second)))
    return welch_interval(first, second, images);
  std::vector<double> values(resamples_);
  const std::uint32_t* draw = draws_.data();
  for (double& value : values) {
    double sum1 = 0, sum2 = 0;
    for (std::size_t i = 0; i < first_; ++i) sum1 += first[*draw++];
    for (std::size_t i = 0; i < second_; ++i) sum2 += second[*draw++];
    value = sum1 / static_cast<double>(first_) + sum2 / static_cast<double>(second_);
  }
  std::ranges::sort(values);
  // A mean of n resampled values varies by (n - 1) / n too little, and percentiles are normal ones.
  const auto n = static_cast<double>(std::min(first_, second_));
  const double quantile =
      std::sqrt(n / (n - 1)) * student_t_975(static_cast<double>(first_ + second_ - 2));
  const double tail = std::erfc(quantile / std::sqrt(2.0)) / 2;
  const double place = tail * static_cast<double>(resamples_ + 1) - 1;
  const auto low = static_cast<std::size_t>(std::max(0.0, std::round(place)));
  return {values[low], values[resamples_ - 1 - low]};
}

}  // namespace oubli
