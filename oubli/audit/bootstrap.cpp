#include "oubli/audit/bootstrap.h"

#include <algorithm>
#include <cmath>

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

double student_t_975(double degrees) {
  constexpr double z = 1.959963984540054;
  const double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees * degrees) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * degrees * degrees * degrees);
}

std::pair<double, double> ModelBootstrap::interval(std::span<const double> first,
                                                   std::span<const double> second) const {
  OUBLI_ASSERT(possible() && first.size() == first_ && second.size() == second_);
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
