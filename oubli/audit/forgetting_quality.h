#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "oubli/array/matrix.h"

namespace oubli {

// Forgetting quality of the NeurIPS 2023 unlearning challenge [Triantafillou et al., "Are we making
// progress in unlearning?", arXiv 2406.09073], per image: how large an epsilon of differential
// privacy the best attack on one number proves, among all single and double thresholds.
//   epsilon = max of ln((1 - delta - FPR) / FNR) and ln((1 - delta - FNR) / FPR)
// A rate of 0 proves nothing, unless both are 0: then epsilon is the cap. The score of an image is
// 2^-floor(epsilon / 0.5); the quality is its mean over images: 1 is perfect. It depends on the
// number of networks and is below 1 between equal populations: compare it with the floor.
inline constexpr double kQualityDelta = 1e-5;
inline constexpr int kQualityBins = 13;  // the last one is open

// Pairs of thresholds are tried at so many places at most, which is everywhere for fewer than as
// many networks; beyond, epsilon is what those prove.
inline constexpr std::size_t kQualityThresholds = 512;

// One number per network of either population for one image; both not empty.
[[nodiscard]] double image_epsilon(std::span<const double> first, std::span<const double> second);
[[nodiscard]] double image_quality(double epsilon);

// The number that is judged: the log-odds of the answer that the second (retrained) population
// gives most often for the image. The challenge takes the true class; here that class is gone.
// first, second: networks x columns of logits, for one image.
struct OddsOfImage {
  std::vector<double> first, second;
};
[[nodiscard]] OddsOfImage log_odds(MatrixView<const float> first, MatrixView<const float> second);
// ln(p / (1 - p)) of one column after softmax.
[[nodiscard]] double log_odds(std::span<const float> logits, std::size_t column);

}  // namespace oubli
