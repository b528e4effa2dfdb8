#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "oubli/array/matrix.h"

namespace oubli {

// What the logits of one model still tell about a forgotten class: seconds, not the hours that
// populations of networks take. docs/method.md, section 5.

// Area under the ROC curve: the chance that a positive's score is above a negative's, ties counting
// half. NaN if there are no positives or no negatives, or if a score is NaN.
[[nodiscard]] double area_under_curve(std::span<const double> scores,
                                      std::span<const std::uint8_t> positive);

// Such an area in words: "hardly", "sometimes", "often", "nearly always".
[[nodiscard]] std::string_view how_often(double area);
// Areas within kSameArea of each other are the same to people.
inline constexpr double kSameArea = 0.01;
enum class Compared { less, same, more };
[[nodiscard]] Compared compare_areas(double area, double other);

// How well an input of a forgotten class is recognised.
struct Recognition {
  std::size_t forgotten_class = 0;
  std::size_t samples = 0;  // of the forgotten class
  // max(AUC, 1 - AUC) of "is this input of the forgotten class?", against inputs of retained
  // classes:
  double ghost = 0;               // from minus the mean of the retained logits
  std::optional<double> readout;  // from the best linear read-out; none below kReadoutSamples
};

// Fewer samples of either kind than this cannot carry a fitted read-out.
inline constexpr std::size_t kReadoutSamples = 20;

// logits: samples x retained classes, as the unlearned model puts them out. labels: in the original
// numbering. One per forgotten class that has samples; other forgotten classes are left out of
// its negatives. The read-out is a ridge-regularised linear discriminant, fitted on one half and
// scored on the other, both ways; halves are drawn from `seed`.
[[nodiscard]] std::vector<Recognition> measure_recognition(MatrixView<const float> logits,
                                                           std::span<const std::uint32_t> labels,
                                                           std::span<const std::size_t> forget,
                                                           std::uint64_t seed = 0);

// The same for one forgotten class; none if it has no samples, or all are its own.
[[nodiscard]] std::optional<Recognition> recognition_of(MatrixView<const float> logits,
                                                        std::span<const std::uint32_t> labels,
                                                        std::span<const std::size_t> forget,
                                                        std::size_t c, std::uint64_t seed = 0);

// The same read-out as a probe on features (samples x features): AUC of "is this input of class
// c?", against all others. Not folded: the half it was fitted on says which side is c's, so that
// noise gives 1/2 on average over models, and not more. None below kReadoutSamples.
[[nodiscard]] std::optional<double> probe_area(MatrixView<const float> features,
                                               std::span<const std::uint32_t> labels, std::size_t c,
                                               std::uint64_t seed = 0);

}  // namespace oubli
