#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/attack/attack_model.h"

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

inline constexpr Attack kAllAttacks[] = {
    Attack::nearest_neighbours, Attack::forest,    Attack::adaboost,        Attack::logistic,
    Attack::strong_forest,      Attack::per_image, Attack::per_image_spread};

[[nodiscard]] constexpr bool is_per_image(Attack attack) {
  return attack == Attack::per_image || attack == Attack::per_image_spread;
}

// "nearest-neighbours", "forest", "adaboost", "logistic", "strong-forest", "per-image",
// "per-image-spread"
[[nodiscard]] std::string_view name_of(Attack attack);
// "random forest (10 trees)", for sentences and charts.
[[nodiscard]] std::string_view title_of(Attack attack);
// Error{usage} with the nearest names if there is none.
[[nodiscard]] Attack attack_of(const std::string& name);

// Not for attacks per image. Fits `attack` on the training points and scores the test points
// (attack_model.h).
[[nodiscard]] std::vector<double> run_attack(Attack attack, MatrixView<const float> x,
                                             std::span<const std::uint8_t> y,
                                             MatrixView<const float> x_test, RandomStream& random,
                                             unsigned workers = 1);

}  // namespace oubli
