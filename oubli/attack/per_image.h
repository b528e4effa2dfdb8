#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "oubli/array/matrix.h"

namespace oubli {

// The attacker who knows which picture he asks about: a likelihood ratio for each image, learned
// from what other networks of both populations gave for the same image [Hayes et al., "Inexact
// unlearning needs more careful evaluations", arXiv 2403.01218, after Carlini et al. 2022]. Pooled
// attacks (attack.h) learn one rule for all images of a class and are weaker for it.

// What one class's images were answered by two populations of networks.
struct PerImageInput {
  // What `network` of a population answered to the images of the class, images x columns: good
  // until the next call.
  using Answers = std::function<MatrixView<const float>(std::size_t side, std::uint32_t network)>;
  Answers answers;
  std::size_t images = 0, columns = 0;
  // Which networks the attack learns from (as many of either), and which it judges.
  std::array<std::span<const std::uint32_t>, 2> train, test;
};

// From matrices of networks * images rows, stacked network by network, which must outlive it.
[[nodiscard]] PerImageInput::Answers stacked_answers(
    const std::array<MatrixView<const float>, 2>& rows, std::size_t images);

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
// From labels alone: how often an image got the label (the arg max of its row; the first of equal
// ones) among the training networks of either population, smoothed by the frequencies of the class
// that count as `shrinkage` networks (1/2, 2, 8 or 32, chosen in the same way).
struct PerImageOptions {
  bool logits = true;
  bool probabilities = true;  // rows minus their mean: all that softmax shows
  bool labels = true;
  std::optional<double> shrinkage = {};  // instead of choosing it
};

// What was asked for; the rest is empty.
struct PerImageFound {
  NumberScores logits, probabilities;
  PerImageScores labels;
};

// Fewer training networks of either population than this have no variance.
inline constexpr std::size_t kFewestPerImage = 2;

// Every answer is read once for all observers (those on which the shrinkage is chosen are kept).
[[nodiscard]] PerImageFound score_images(const PerImageInput& input,
                                         const PerImageOptions& options = {});

// Several answers of one network: sums over groups of images, the same groups for all networks, in
// an order drawn from `seed`; images that fill no group are left out.
class AnswerGroups {
 public:
  AnswerGroups(std::size_t images, std::uint64_t seed);

  // Networks x groups of `answers` images: no columns if there are fewer images than answers.
  [[nodiscard]] Matrix<double> sums(MatrixView<const float> scores, std::size_t answers) const;

 private:
  std::vector<std::uint32_t> order_;
};

}  // namespace oubli
