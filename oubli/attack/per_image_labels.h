#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "oubli/attack/per_image_fit.h"

namespace oubli {

// Likelihood ratios of labels; used like NumberAttack.
class LabelAttack {
 public:
  LabelAttack(const PerImageInput& input, std::optional<double> shrinkage);

  void learn(const AnswerBlock& answers);
  void learned();
  void judge(const AnswerBlock& answers);
  [[nodiscard]] PerImageScores scores() && { return std::move(result_); }

 private:
  [[nodiscard]] double choose() const;

  const PerImageInput& input_;
  std::optional<double> shrinkage_;
  std::size_t step_;  // every step-th image is one on which the smoothing is chosen
  // How many networks gave an image a label, per population and fold: images x columns.
  std::array<std::vector<Matrix<std::uint16_t>>, 2> counts_;
  Matrix<float> ratios_;  // images x columns
  PerImageScores result_;
};

}  // namespace oubli
