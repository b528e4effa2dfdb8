#include "oubli/attack/adaboost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "oubli/attack/radix_sort.h"
#include "oubli/base/workers.h"

namespace oubli {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
// Neighbouring values that are not further apart count as equal, as in scikit-learn.
constexpr float kSameValue = 1e-7F;
constexpr std::size_t kChunk = 512;

struct Candidate {
  double merit = -std::numeric_limits<double>::infinity();
  std::size_t position = 0;  // the split is before this place in the feature's order
  double left[2] = {};       // weights of the two labels left of it
};

// Sums of squared label weights over the weight, left plus right: what the least Gini impurity
// makes largest.
double merit_of(double left0, double left1, double total0, double total1) {
  const double right0 = total0 - left0, right1 = total1 - left1;
  return (left0 * left0 + left1 * left1) / (left0 + left1) +
         (right0 * right0 + right1 * right1) / (right0 + right1);
}

// A feature's points in ascending order. entry: point << 1 | label.
struct SortedFeature {
  std::vector<std::uint32_t> entries;
  std::vector<std::uint8_t> may_split;  // [i]: a split before place i parts different values
};

SortedFeature sort_feature(MatrixView<const float> x, std::span<const std::uint8_t> y,
                           std::size_t feature) {
  std::vector<std::uint64_t> scratch;
  SortedFeature sorted;
  sorted.entries = radix_order(x.data() + feature, x.rows(), x.cols(), scratch);
  sorted.may_split.resize(x.rows());
  const auto value = [&](std::uint32_t row) { return x.data()[row * x.cols() + feature]; };
  for (std::size_t i = 1; i < x.rows(); ++i)
    sorted.may_split[i] =
        value(sorted.entries[i]) > value(sorted.entries[i - 1]) + kSameValue ? 1 : 0;
  for (std::uint32_t& entry : sorted.entries) entry = entry << 1 | (y[entry] != 0 ? 1U : 0U);
  return sorted;
}

// Best splits of `kTogether` features: their running sums do not wait for each other.
template <std::size_t kTogether>
void search(const SortedFeature* features, std::span<const double> weights, double total0,
            double total1, Candidate* best) {
  const std::size_t n = weights.size();
  std::array<double, kTogether> sum0{}, sum1{};
  // The sums left of place begin + j.
  alignas(64) double left0[kTogether][kChunk];
  alignas(64) double left1[kTogether][kChunk];
  for (std::size_t begin = 0; begin < n; begin += kChunk) {
    const std::size_t count = std::min(kChunk, n - begin);
    for (std::size_t j = 0; j < count; ++j) {
      for (std::size_t f = 0; f < kTogether; ++f) {
        left0[f][j] = sum0[f];
        left1[f][j] = sum1[f];
        const std::uint32_t entry = features[f].entries[begin + j];
        const double weight = weights[entry >> 1];
        const double one = (entry & 1U) != 0 ? weight : 0.0;
        sum0[f] += weight - one;  // exact: 0 or weight
        sum1[f] += one;
      }
    }
    for (std::size_t f = 0; f < kTogether; ++f) {
      // Most places are worse than the best so far: a comparison without division finds out.
      const double limit = best[f].merit * (1 - 1e-12);
      std::int64_t promising = 0;
      for (std::size_t j = 0; j < count; ++j) {
        const double l0 = left0[f][j], l1 = left1[f][j];
        const double r0 = total0 - l0, r1 = total1 - l1;
        const double l = l0 + l1, r = r0 + r1;
        promising += (l0 * l0 + l1 * l1) * r + (r0 * r0 + r1 * r1) * l > limit * (l * r) ? 1 : 0;
      }
      if (promising == 0) continue;
      for (std::size_t j = 0; j < count; ++j) {
        if (features[f].may_split[begin + j] == 0) continue;
        const double merit = merit_of(left0[f][j], left1[f][j], total0, total1);
        if (merit > best[f].merit) best[f] = {merit, begin + j, {left0[f][j], left1[f][j]}};
      }
    }
  }
}

// The best stump for the given weights; `position` 0 if no feature can be split.
struct Stump {
  std::size_t feature = 0;
  std::size_t position = 0;
  double left[2] = {};
};

class StumpSearch {
 public:
  StumpSearch(MatrixView<const float> x, std::span<const std::uint8_t> y, unsigned workers)
      : features_(x.cols()), best_(x.cols()), workers_(workers) {
    run_tasks(x.cols(), workers,
              [&](std::size_t f, unsigned) { features_[f] = sort_feature(x, y, f); });
  }

  [[nodiscard]] const SortedFeature& feature(std::size_t f) const { return features_[f]; }

  Stump best(std::span<const double> weights, double total0, double total1) {
    constexpr std::size_t kTogether = 3;
    std::ranges::fill(best_, Candidate{});
    run_tasks((features_.size() + kTogether - 1) / kTogether, workers_,
              [&](std::size_t task, unsigned) {
                const std::size_t f = task * kTogether;
                if (f + kTogether <= features_.size())
                  search<kTogether>(&features_[f], weights, total0, total1, &best_[f]);
                else
                  for (std::size_t g = f; g < features_.size(); ++g)
                    search<1>(&features_[g], weights, total0, total1, &best_[g]);
              });
    Stump stump;
    double merit = -std::numeric_limits<double>::infinity();
    for (std::size_t f = 0; f < best_.size(); ++f) {
      if (best_[f].position == 0 || !(best_[f].merit > merit)) continue;
      merit = best_[f].merit;
      stump = {f, best_[f].position, {best_[f].left[0], best_[f].left[1]}};
    }
    return stump;
  }

 private:
  std::vector<SortedFeature> features_;
  std::vector<Candidate> best_;
  unsigned workers_;
};

// Halfway between the values around the split, as a float that parts the same points as the
// exact midpoint: x <= midpoint just if x <= the midpoint rounded down.
float threshold_of(float low, float high) {
  const double middle = static_cast<double>(low) / 2 + static_cast<double>(high) / 2;
  auto rounded = static_cast<float>(middle);
  if (static_cast<double>(rounded) > middle)
    rounded = std::nextafter(rounded, -std::numeric_limits<float>::infinity());
  return rounded < high ? rounded : low;
}

}  // namespace

AdaBoost AdaBoost::fit(MatrixView<const float> x, std::span<const std::uint8_t> y,
                       const Options& options, RandomStream& /*random*/) {
  OUBLI_ASSERT(x.rows() == y.size() && x.rows() > 0 && x.rows() < (1U << 31U));
  const std::size_t n = x.rows();
  const bool real = options.algorithm == Options::Algorithm::samme_r;
  const auto ones =
      static_cast<std::size_t>(std::ranges::count_if(y, [](auto v) { return v != 0; }));
  std::vector<Part> parts;
  if (ones == 0 || ones == n) {  // one label: a constant answer
    const double answer = ones == 0 ? -1 : 1;
    return {{{0, std::numeric_limits<float>::infinity(), answer, answer}}, options.workers};
  }

  StumpSearch search(x, y, options.workers);
  std::vector<double> weights(n, 1.0 / static_cast<double>(n));
  std::vector<std::uint8_t> side(n);  // of the stump at hand: 0 left, 1 right
  for (std::size_t round = 0; round < options.stumps; ++round) {
    // Rounding must not take a point out of the game for good.
    double total[2] = {};
    for (std::size_t i = 0; i < n; ++i) {
      weights[i] = std::max(weights[i], kEpsilon);
      total[y[i] != 0 ? 1 : 0] += weights[i];
    }
    const Stump stump = search.best(weights, total[0], total[1]);
    // Leaves: 0 left, 1 right; without a split all points are on the left. Their weights are summed
    // anew: the difference of two large sums would not be 0 in a pure leaf.
    double leaf[2][2] = {};
    float threshold = std::numeric_limits<float>::infinity();
    std::ranges::fill(side, std::uint8_t{0});
    if (stump.position != 0) {
      const std::vector<std::uint32_t>& entries = search.feature(stump.feature).entries;
      threshold = threshold_of(x(entries[stump.position - 1] >> 1, stump.feature),
                               x(entries[stump.position] >> 1, stump.feature));
      for (std::size_t i = stump.position; i < n; ++i) side[entries[i] >> 1] = 1;
    }
    for (std::size_t i = 0; i < n; ++i) leaf[side[i]][y[i] != 0 ? 1 : 0] += weights[i];

    // How each leaf votes, and by what the weight of its points of either label is multiplied.
    double vote[2] = {}, factor[2][2] = {};
    double error = 0;
    for (const auto& sums : leaf) error += std::min(sums[0], sums[1]);
    error /= total[0] + total[1];
    if (!real && error >= 0.5) {
      // No better than guessing: boosting ends. (scikit-learn refuses if the first stump is; here
      // it is kept, and guesses.)
      if (parts.empty()) parts.push_back({0, threshold, 0, 0});
      break;
    }
    const double stump_weight = std::log((1 - error) / error);
    for (std::size_t s = 0; s < 2; ++s) {
      const double sum = leaf[s][0] + leaf[s][1];
      if (sum == 0) continue;  // no point is there
      const bool answer = leaf[s][1] > leaf[s][0];
      if (real) {
        const double p0 = std::max(leaf[s][0] / sum, kEpsilon);
        const double p1 = std::max(leaf[s][1] / sum, kEpsilon);
        vote[s] = std::log(p1) - std::log(p0);
        factor[s][0] = std::exp(vote[s] / 2);
        factor[s][1] = std::exp(-vote[s] / 2);
      } else {
        const double weight = error > 0 ? stump_weight : 1;
        vote[s] = answer ? weight : -weight;
        factor[s][0] = answer ? std::exp(weight) : 1;
        factor[s][1] = answer ? 1 : std::exp(weight);
      }
    }
    parts.push_back({stump.feature, threshold, vote[0], vote[1]});
    if (error <= 0) break;

    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      weights[i] *= factor[side[i]][y[i] != 0 ? 1 : 0];
      sum += weights[i];
    }
    if (!std::isfinite(sum) || sum <= 0) break;
    for (double& weight : weights) weight /= sum;
  }
  return {std::move(parts), options.workers};
}

std::vector<double> AdaBoost::decision(MatrixView<const float> x) const {
  constexpr std::size_t kRows = 4096;
  std::vector<double> result(x.rows());
  run_tasks((x.rows() + kRows - 1) / kRows, workers_, [&](std::size_t task, unsigned) {
    const std::size_t begin = task * kRows, count = std::min(kRows, x.rows() - begin);
    double* sums = result.data() + begin;
    const float* values = x.data() + begin * x.cols();
    for (const Part& part : parts_)
      for (std::size_t i = 0; i < count; ++i)
        sums[i] += values[i * x.cols() + part.feature] <= part.threshold ? part.left : part.right;
  });
  return result;
}

std::vector<std::uint8_t> AdaBoost::predict(MatrixView<const float> x) const {
  const std::vector<double> sums = decision(x);
  std::vector<std::uint8_t> labels(sums.size());
  std::ranges::transform(sums, labels.begin(), [](double v) { return v > 0 ? 1 : 0; });
  return labels;
}

}  // namespace oubli
