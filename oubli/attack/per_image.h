#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "oubli/array/matrix.h"

namespace oubli {

// The attacker who knows which picture he asks about: a likelihood ratio for each image, learned
// from what other networks of both populations gave for the same image [Hayes et al., "Inexact
// unlearning needs more careful evaluations", arXiv 2403.01218, after Carlini et al. 2022]. Pooled
// attacks (attack.h) learn one rule for all images of a class and are weaker for it.

// What one class's images were answered by two populations of networks.
struct PerImageInput {
  // Per population, models * images rows of logits, stacked model by model.
  std::array<MatrixView<const float>, 2> rows;
  std::size_t images = 0;
  // Which networks the attack learns from (as many of either), and which it judges.
  std::array<std::span<const std::uint32_t>, 2> train, test;
};

// The same, laid out for these attacks: kLanes images of one network side by side, column by
// column. Made once for all observers of a class; the networks' numbers must outlive it.
class PerImageAnswers {
 public:
  static constexpr std::size_t kLanes = 64;

  PerImageAnswers(const PerImageInput& input);  // NOLINT(google-explicit-constructor): a layout

  [[nodiscard]] std::size_t images() const { return images_; }
  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] std::size_t blocks() const { return (images_ + kLanes - 1) / kLanes; }
  [[nodiscard]] std::size_t lanes_of(std::size_t block) const {
    return std::min(kLanes, images_ - block * kLanes);
  }
  // columns x kLanes; lanes beyond the last image repeat it.
  [[nodiscard]] const float* block(std::size_t side, std::uint32_t model, std::size_t block) const {
    return lanes_[side].data() + (model * blocks() + block) * columns_ * kLanes;
  }
  [[nodiscard]] std::span<const std::uint32_t> train(std::size_t side) const {
    return train_[side];
  }
  [[nodiscard]] std::span<const std::uint32_t> test(std::size_t side) const { return test_[side]; }

 private:
  std::size_t images_, columns_;
  std::array<std::span<const std::uint32_t>, 2> train_, test_;
  std::array<Matrix<float>, 2> lanes_;
};

// Log-likelihood ratios of single answers: positive says "first population".
struct PerImageScores {
  // How far each image's own statistics were drawn towards those of its class: 0 not at all, 1
  // altogether (variances); for labels, how many networks the class counts as.
  double shrinkage = 0;
  std::array<Matrix<float>, 2> scores;  // per population, test networks x images
};

// Two forms, because each is blind to something. Gaussians of independent coordinates,
//   pooled: both populations have one variance: finds means that differ;
//   own:    each has its own: finds one population that spreads more, too.
struct NumberScores {
  PerImageScores pooled, own;
};

// Variances from few networks are far too sure of themselves. So the variances of an image are
// shrunk towards their mean over the class's images, by the share (of 0, 1/4, 1/2, 3/4, 1) with the
// smallest log-loss on training networks that were left out in turn; and a new network's variance
// about a mean of T networks is (1 + 1/T) times a network's.
struct PerImageOptions {
  bool centred = false;             // judge rows minus their mean: all that softmax shows
  std::optional<double> shrinkage;  // instead of choosing it
};

// Fewer training networks of either population than this have no variance.
inline constexpr std::size_t kFewestPerImage = 2;

[[nodiscard]] NumberScores score_numbers(const PerImageAnswers& input,
                                         const PerImageOptions& options = {});

// From labels alone: how often an image got the label (the arg max of its row; the first of equal
// ones) among the training networks of either population, smoothed by the frequencies of the class
// that count as `shrinkage` networks (1/2, 2, 8 or 32, chosen in the same way).
[[nodiscard]] PerImageScores score_labels(const PerImageAnswers& input,
                                          const PerImageOptions& options = {});

// Several answers of one network: sums over groups of `answers` images, the same groups for all
// networks, in an order drawn from `seed`; images that fill no group are left out. Networks x
// groups: no columns if there are fewer images than answers.
[[nodiscard]] Matrix<double> sum_answers(MatrixView<const float> scores, std::size_t answers,
                                         std::uint64_t seed);

}  // namespace oubli
