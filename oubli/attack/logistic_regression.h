#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "oubli/attack/attack_model.h"

namespace oubli {

struct LogisticRegressionOptions {
  // scikit-learn's C: minimises |w|^2 / 2 + C * (sum of the log-losses); the intercept is free.
  double inverse_penalty = 1;
  std::size_t max_iterations = 100;
  double tolerance = 1e-8;  // on the largest gradient entry, relative to the number of points
};

// The linear attacker: logistic regression with an L2 penalty, Newton's method with step halving.
class LogisticRegression {
 public:
  using Options = LogisticRegressionOptions;
  static LogisticRegression fit(MatrixView<const float> x, std::span<const std::uint8_t> y,
                                const Options& options, RandomStream& random);
  [[nodiscard]] std::vector<std::uint8_t> predict(MatrixView<const float> x) const;
  // w.x + intercept
  [[nodiscard]] std::vector<double> score(MatrixView<const float> x) const;
  [[nodiscard]] std::span<const double> weights() const { return weights_; }
  [[nodiscard]] double intercept() const { return intercept_; }

 private:
  LogisticRegression(std::vector<double> weights, double intercept)
      : weights_(std::move(weights)), intercept_(intercept) {}
  std::vector<double> weights_;
  double intercept_;
};

static_assert(AttackModel<LogisticRegression>);

}  // namespace oubli
