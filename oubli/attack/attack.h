#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "oubli/attack/attack_model.h"
#include "oubli/base/enum_names.h"

namespace oubli {

// The attacks by name, for the audit and the command line.
// Those per image learn about each picture (per_image.h), the others one rule for all of them.
enum class Attack {
  nearest_neighbours,
  forest,
  adaboost,
  logistic,
  strong_forest,
  per_image,         // one variance for both populations
  per_image_spread,  // one for each
};

template <>
struct EnumNames<Attack> {
  static constexpr std::string_view kWhat = "attack";
  static constexpr EnumName<Attack> kTable[] = {{Attack::nearest_neighbours, "nearest-neighbours"},
                                                {Attack::forest, "forest"},
                                                {Attack::adaboost, "adaboost"},
                                                {Attack::logistic, "logistic"},
                                                {Attack::strong_forest, "strong-forest"},
                                                {Attack::per_image, "per-image"},
                                                {Attack::per_image_spread, "per-image-spread"}};
};

[[nodiscard]] constexpr bool is_per_image(Attack attack) {
  return attack == Attack::per_image || attack == Attack::per_image_spread;
}

// "random forest (10 trees)", for sentences and charts.
[[nodiscard]] std::string_view title_of(Attack attack);

// Not for attacks per image. Fits `attack` on the training points and scores the test points
// (attack_model.h).
[[nodiscard]] std::vector<double> run_attack(Attack attack, MatrixView<const float> x,
                                             std::span<const std::uint8_t> y,
                                             MatrixView<const float> x_test, RandomStream& random,
                                             unsigned workers = 1);

}  // namespace oubli
