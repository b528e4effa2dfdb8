#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>

#include "oubli/attack/per_image_fit.h"

namespace oubli {

// Likelihood ratios of numbers. Learns from all blocks, one after another, each of all training
// networks, population by population; then judges them in the same order.
class NumberAttack {
 public:
  NumberAttack(const PerImageInput& input, bool centred, std::optional<double> shrinkage);
  ~NumberAttack();
  NumberAttack(const NumberAttack&) = delete;
  NumberAttack& operator=(const NumberAttack&) = delete;

  void learn(const AnswerBlock& answers);
  void learned();  // everything
  void judge(const AnswerBlock& answers);
  [[nodiscard]] NumberScores scores() &&;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace oubli
