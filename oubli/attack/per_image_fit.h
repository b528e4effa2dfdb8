#pragma once

// What the attacks per image on numbers and on labels have in common (per_image.h).

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "oubli/attack/per_image.h"

namespace oubli {

// Shrinkage is chosen on this many images of a class or so, by leaving out a fifth of the training
// networks at a time.
inline constexpr std::size_t kTrialImages = 128;
inline constexpr std::size_t kFolds = 5;

// How little a score says of the truth: log(1 + exp(-score)) where it should be positive. From a
// table, straight between its entries: off by less than 2e-5.
class LogLoss {
 public:
  LogLoss() {
    for (std::size_t i = 0; i < table_.size(); ++i)
      table_[i] = static_cast<float>(std::log1p(std::exp(-static_cast<double>(i) / kSteps)));
  }
  [[nodiscard]] float operator()(float score, bool first) const {
    const float wrong = first ? -score : score, size = std::abs(wrong);
    const float rest = std::max(wrong, 0.0F);
    const float place = std::min(size * kSteps, static_cast<float>(table_.size() - 2));
    const auto i = static_cast<std::size_t>(place);
    return rest + table_[i] + (place - static_cast<float>(i)) * (table_[i + 1] - table_[i]);
  }

 private:
  static constexpr int kSteps = 32;
  std::array<float, 16 * kSteps + 2> table_{};
};

inline const LogLoss& log_loss() {
  static const LogLoss table;
  return table;
}

// The choice with the smallest loss.
template <std::size_t N>
double best_of(const std::array<double, N>& choices, const std::array<double, N>& losses) {
  return choices[static_cast<std::size_t>(std::ranges::min_element(losses) - losses.begin())];
}

inline std::array<Matrix<float>, 2> score_tables(const PerImageAnswers& input) {
  return {Matrix<float>::for_overwrite(input.test(0).size(), input.images()),
          Matrix<float>::for_overwrite(input.test(1).size(), input.images())};
}

}  // namespace oubli
