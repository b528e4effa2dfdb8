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
  [[nodiscard]] int operator()(std::size_t image, std::uint32_t label) const {
    return counts_(image, label);
  }
  // Logs of the smoothed frequencies: row n, column c for n networks that gave label c.
  [[nodiscard]] Matrix<double> log_shares(double smoothing) const {
    const auto columns = static_cast<double>(class_counts_.size());
    const double answers = static_cast<double>(networks_) * static_cast<double>(counts_.rows());
    Matrix<double> logs(static_cast<std::size_t>(networks_) + 1, class_counts_.size());
    for (std::size_t n = 0; n < logs.rows(); ++n)
      for (std::size_t c = 0; c < logs.cols(); ++c)
        logs(n, c) = std::log(
            (static_cast<double>(n) + smoothing * (class_counts_[c] + 1) / (answers + columns)) /
            (networks_ + smoothing));
    return logs;
  }

 private:
  Matrix<int> counts_;
  std::vector<double> class_counts_;
  int networks_ = 0;
};

// The column with the largest answer, the first of equal ones.
std::vector<std::uint32_t> labels_of(const PerImageAnswers& input, std::size_t side,
                                     std::uint32_t model) {
  constexpr std::size_t kLanes = PerImageAnswers::kLanes;
  std::vector<std::uint32_t> labels(input.images());
  for (std::size_t block = 0; block < input.blocks(); ++block) {
    const float* const answers = input.block(side, model, block);
    std::array<float, kLanes> largest;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    std::copy_n(answers, kLanes, largest.begin());
    std::array<std::uint32_t, kLanes> top{};
    for (std::uint32_t c = 1; c < input.columns(); ++c) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        const float value = answers[c * kLanes + i];
        top[i] = value > largest[i] ? c : top[i];
        largest[i] = value > largest[i] ? value : largest[i];
      }
    }
    std::copy_n(top.begin(), input.lanes_of(block), &labels[block * kLanes]);
  }
  return labels;
}

// Log-likelihood ratios of every label for every `step`-th image.
Matrix<float> label_ratios(const std::array<LabelCounts, 2>& counts, double smoothing,
                           std::size_t step) {
  const std::size_t images = counts[0].images(), columns = counts[0].columns();
  auto ratios = Matrix<float>::for_overwrite((images + step - 1) / step, columns);
  const std::array logs{counts[0].log_shares(smoothing), counts[1].log_shares(smoothing)};
  const auto log_share = [&](std::size_t side, std::size_t image, std::uint32_t label) {
    return logs[side](static_cast<std::size_t>(counts[side](image, label)), label);
  };
  for (std::size_t i = 0; i < images; i += step)
    for (std::uint32_t c = 0; c < columns; ++c)
      ratios(i / step, c) = static_cast<float>(log_share(0, i, c) - log_share(1, i, c));
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

PerImageScores score_labels(const PerImageAnswers& input, const PerImageOptions& options) {
  std::array<LabelCounts, 2> counts{LabelCounts(input.images(), input.columns()),
                                    LabelCounts(input.images(), input.columns())};
  std::array<std::vector<std::vector<std::uint32_t>>, 2> labels;
  for (std::size_t side = 0; side < 2; ++side) {
    for (const std::uint32_t model : input.train(side)) {
      labels[side].push_back(labels_of(input, side, model));
      counts[side].add(labels[side].back(), 1);
    }
  }
  PerImageScores result{options.shrinkage ? *options.shrinkage : choose_smoothing(counts, labels),
                        score_tables(input)};
  const Matrix<float> ratios = label_ratios(counts, result.shrinkage, 1);
  for (std::size_t side = 0; side < 2; ++side) {
    for (std::size_t t = 0; t < input.test(side).size(); ++t) {
      const auto given = labels_of(input, side, input.test(side)[t]);
      for (std::size_t i = 0; i < given.size(); ++i)
        result.scores[side](t, i) = ratios(i, given[i]);
    }
  }
  return result;
}

}  // namespace oubli
