#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "oubli/attack/per_image_fit.h"

namespace oubli {
namespace {

constexpr std::array kSmoothing{0.5, 2.0, 8.0, 32.0};

// Counts of labels per image over networks.
class LabelCounts {
 public:
  LabelCounts(std::size_t images, std::size_t columns)
      : counts_(images, columns), class_counts_(columns) {}

  void add(std::span<const std::uint32_t> labels, int times) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      counts_(i, labels[i]) += times;
      class_counts_[labels[i]] += times;
    }
    networks_ += times;
  }
  [[nodiscard]] std::size_t images() const { return counts_.rows(); }
  [[nodiscard]] std::size_t columns() const { return counts_.cols(); }
  // log of the smoothed frequency.
  [[nodiscard]] double log_share(std::size_t image, std::uint32_t label, double smoothing) const {
    const auto columns = static_cast<double>(class_counts_.size());
    const double of_class =
        (class_counts_[label] + 1) /
        (static_cast<double>(networks_) * static_cast<double>(counts_.rows()) + columns);
    return std::log((counts_(image, label) + smoothing * of_class) / (networks_ + smoothing));
  }

 private:
  Matrix<int> counts_;
  std::vector<double> class_counts_;
  int networks_ = 0;
};

std::vector<std::uint32_t> labels_of(const PerImageInput& input, std::size_t side,
                                     std::uint32_t model) {
  const std::size_t columns = input.rows[side].cols();
  std::vector<std::uint32_t> labels(input.images);
  for (std::size_t i = 0; i < input.images; ++i) {
    const float* row = input.rows[side].data() + (model * input.images + i) * columns;
    std::uint32_t top = 0;
    for (std::uint32_t c = 1; c < columns; ++c) top = row[c] > row[top] ? c : top;
    labels[i] = top;
  }
  return labels;
}

// Log-likelihood ratios of every label for every `step`-th image.
Matrix<float> label_ratios(const std::array<LabelCounts, 2>& counts, double smoothing,
                           std::size_t step) {
  const std::size_t images = counts[0].images(), columns = counts[0].columns();
  auto ratios = Matrix<float>::for_overwrite((images + step - 1) / step, columns);
  for (std::size_t i = 0; i < images; i += step)
    for (std::uint32_t c = 0; c < columns; ++c)
      ratios(i / step, c) = static_cast<float>(counts[0].log_share(i, c, smoothing) -
                                               counts[1].log_share(i, c, smoothing));
  return ratios;
}

double choose_smoothing(std::array<LabelCounts, 2>& counts,
                        const std::array<std::vector<std::vector<std::uint32_t>>, 2>& labels) {
  const std::size_t folds = std::min({labels[0].size(), labels[1].size(), kFolds});
  std::array<double, kSmoothing.size()> losses{};
  for (std::size_t fold = 0; fold < folds; ++fold) {
    const auto each = [&](auto action) {
      for (std::size_t side = 0; side < 2; ++side)
        for (std::size_t t = fold; t < labels[side].size(); t += folds)
          action(side, labels[side][t]);
    };
    each([&](std::size_t side, const auto& given) { counts[side].add(given, -1); });
    for (std::size_t s = 0; s < kSmoothing.size(); ++s) {
      const std::size_t images = labels[0][0].size();
      const std::size_t step = std::max<std::size_t>(1, images / kTrialImages);
      const Matrix<float> ratios = label_ratios(counts, kSmoothing[s], step);
      each([&](std::size_t side, const auto& given) {
        for (std::size_t i = 0; i < images; i += step)
          losses[s] += static_cast<double>(log_loss()(ratios(i / step, given[i]), side == 0));
      });
    }
    each([&](std::size_t side, const auto& given) { counts[side].add(given, 1); });
  }
  return best_of(kSmoothing, losses);
}

}  // namespace

PerImageScores score_labels(const PerImageInput& input, const PerImageOptions& options) {
  check_per_image(input);
  const std::size_t columns = input.rows[0].cols();
  std::array<LabelCounts, 2> counts{LabelCounts(input.images, columns),
                                    LabelCounts(input.images, columns)};
  std::array<std::vector<std::vector<std::uint32_t>>, 2> labels;
  for (std::size_t side = 0; side < 2; ++side) {
    for (const std::uint32_t model : input.train[side]) {
      labels[side].push_back(labels_of(input, side, model));
      counts[side].add(labels[side].back(), 1);
    }
  }
  PerImageScores result{options.shrinkage ? *options.shrinkage : choose_smoothing(counts, labels),
                        score_tables(input)};
  const Matrix<float> ratios = label_ratios(counts, result.shrinkage, 1);
  for (std::size_t side = 0; side < 2; ++side) {
    for (std::size_t t = 0; t < input.test[side].size(); ++t) {
      const auto given = labels_of(input, side, input.test[side][t]);
      for (std::size_t i = 0; i < given.size(); ++i)
        result.scores[side](t, i) = ratios(i, given[i]);
    }
  }
  return result;
}

}  // namespace oubli
