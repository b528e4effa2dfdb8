#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "oubli/attack/attack_model.h"

namespace oubli {

struct AdaBoostOptions {
  enum class Algorithm { samme_r, samme };
  std::size_t stumps = 50;
  Algorithm algorithm = Algorithm::samme_r;  // scikit-learn's default up to 1.3
  unsigned workers = 1;
};

// AdaBoost of decision stumps [Zhu, Zou, Rosset, Hastie 2009], two classes, learning rate 1.
//
// Splits are exact: every midpoint between two neighbouring values of a feature (neighbours within
// 1e-7 count as equal), Gini impurity, weights in double. As in scikit-learn, except that of
// equally good splits the first feature's lowest wins, where scikit-learn's choice is random.
class AdaBoost {
 public:
  using Options = AdaBoostOptions;
  static AdaBoost fit(MatrixView<const float> x, std::span<const std::uint8_t> y,
                      const Options& options, RandomStream& random);
  [[nodiscard]] std::vector<std::uint8_t> predict(MatrixView<const float> x) const;
  // The sum of the stumps' votes.
  [[nodiscard]] std::vector<double> score(MatrixView<const float> x) const;
  [[nodiscard]] std::size_t stumps() const { return parts_.size(); }

 private:
  // Adds `left` to the decision where x[feature] <= threshold, else `right`.
  struct Part {
    std::size_t feature = 0;
    float threshold = 0;
    double left = 0;
    double right = 0;
  };

  AdaBoost(std::vector<Part> parts, unsigned workers)
      : parts_(std::move(parts)), workers_(workers) {}
  std::vector<Part> parts_;
  unsigned workers_;
};

static_assert(AttackModel<AdaBoost>);

}  // namespace oubli
