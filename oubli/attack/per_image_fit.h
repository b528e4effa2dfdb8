#pragma once

// What the attacks per image on numbers and on labels have in common (per_image.h).

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "oubli/attack/per_image.h"

namespace oubli {

// Answers are looked at in blocks of so many images of one network: columns x kLanes, one image per
// lane. Lanes beyond the last image repeat it.
inline constexpr std::size_t kLanes = 64;

[[nodiscard]] inline std::size_t blocks_of(const PerImageInput& input) {
  return (input.images + kLanes - 1) / kLanes;
}
[[nodiscard]] inline std::size_t lanes_of(const PerImageInput& input, std::size_t block) {
  return std::min(kLanes, input.images - block * kLanes);
}

// Eight lanes, which are computed at once.
using Eight = float __attribute__((vector_size(32)));
inline constexpr std::size_t kEight = 8;

// One of them: of the network in place `place` of those that are learned from, or judged.
struct AnswerBlock {
  std::size_t side, place, block;
  const float* lanes;
};

// Shrinkage is chosen on this many images of a class or so, by leaving out a fifth of the training
// networks at a time.
inline constexpr std::size_t kTrialImages = 128;
inline constexpr std::size_t kFolds = 5;

[[nodiscard]] inline std::size_t folds_of(const PerImageInput& input) {
  return std::min({input.train[0].size(), input.train[1].size(), kFolds});
}

// How little a score says of the truth: log(1 + exp(-score)) where it should be positive. To 1e-6,
// in steps that a processor takes for many scores at once.
[[nodiscard]] inline float log_loss(float score, bool first) {
  const float wrong = (first ? -1.0F : 1.0F) * score, size = std::abs(wrong);
  // exp(-|score|) = 2^t; 2^f for f in (-1, 0] by its series. Floats that are not negative are in
  // the order of their bits, whose smaller one takes no branch.
  const auto bits = std::bit_cast<std::int32_t>(size), most = std::bit_cast<std::int32_t>(86.0F);
  const float t = -1.44269504F * std::bit_cast<float>(bits < most ? bits : most);
  const auto whole = static_cast<std::int32_t>(t);
  const float f = (t - static_cast<float>(whole)) * 0.693147181F;
  const float series =
      1 +
      f * (1 + f * (1.0F / 2 +
                    f * (1.0F / 6 + f * (1.0F / 24 + f * (1.0F / 120 +
                                                          f * (1.0F / 720 + f * (1.0F / 5040)))))));
  const float e = series * std::bit_cast<float>((whole + 127) << 23);
  // log(1 + e) = 2 artanh(e / (2 + e)), by its series.
  const float z = e / (2 + e), q = z * z;
  const float artanh =
      z * (1 + q * (1.0F / 3 + q * (1.0F / 5 + q * (1.0F / 7 + q * (1.0F / 9 + q / 11)))));
  return (wrong + size) / 2 + 2 * artanh;
}

// The choice with the smallest loss.
template <std::size_t N>
double best_of(const std::array<double, N>& choices, const std::array<double, N>& losses) {
  return choices[static_cast<std::size_t>(std::ranges::min_element(losses) - losses.begin())];
}

inline std::array<Matrix<float>, 2> score_tables(const PerImageInput& input) {
  return {Matrix<float>::for_overwrite(input.test[0].size(), input.images),
          Matrix<float>::for_overwrite(input.test[1].size(), input.images)};
}

}  // namespace oubli
