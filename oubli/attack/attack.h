#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "oubli/attack/attack_model.h"
#include "oubli/base/enum_names.h"

namespace oubli {

// The attacks by name, for the audit and the command line.
enum class Attack { nearest_neighbours, forest, adaboost, logistic, strong_forest };

template <>
struct EnumNames<Attack> {
  static constexpr std::string_view kWhat = "attack";
  static constexpr EnumName<Attack> kTable[] = {{Attack::nearest_neighbours, "nearest-neighbours"},
                                                {Attack::forest, "forest"},
                                                {Attack::adaboost, "adaboost"},
                                                {Attack::logistic, "logistic"},
                                                {Attack::strong_forest, "strong-forest"}};
};

// Fits `attack` on the training points and labels the test points.
[[nodiscard]] std::vector<std::uint8_t> run_attack(Attack attack, MatrixView<const float> x,
                                                   std::span<const std::uint8_t> y,
                                                   MatrixView<const float> x_test,
                                                   RandomStream& random, unsigned workers = 1);

}  // namespace oubli
