#include "oubli/attack/adaboost.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "oubli/attack/radix_sort.h"
#include "oubli/base/workers.h"

namespace oubli {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
// Neighbouring values that are not further apart count as equal, as in scikit-learn.
constexpr float kSameValue = 1e-7F;
constexpr std::size_t kChunk = 128;  // points that share a bound

struct Candidate {
  double merit = -std::numeric_limits<double>::infinity();
  std::size_t position = 0;  // the split is before this place in the feature's order
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

// Adds the weight of the point of `entry` to the sum of its label. Without a branch: it would be
// mispredicted half the time.
void add_weight(std::uint32_t entry, std::span<const double> weights, double& sum0, double& sum1) {
  const double weight = weights[entry >> 1];
  const double one = std::bit_cast<double>(std::bit_cast<std::uint64_t>(weight) &
                                           (0 - static_cast<std::uint64_t>(entry & 1U)));
  sum0 += weight - one;  // exact: 0 or weight
  sum1 += one;
}

// No split within a chunk is better than the best corner of the rectangle between the sums at its
// beginning and at its end, because x^2 / y and with it the merit are convex.
double merit_bound(const double (&begin)[2], const double (&end)[2], double total0, double total1) {
  double bound = -std::numeric_limits<double>::infinity();
  for (const double left0 : {begin[0], end[0]}) {
    for (const double left1 : {begin[1], end[1]}) {
      // The whole on one side: the limit of the merit, as if nothing were split.
      const double l = left0 + left1, r = total0 + total1 - l;
      const double merit = l > 0 && r > 0 ? merit_of(left0, left1, total0, total1)
                                          : (total0 * total0 + total1 * total1) / (total0 + total1);
      bound = std::max(bound, merit);
    }
  }
  return bound * (1 + 1e-12);
}

// Best splits of `kTogether` features: their running sums do not wait for each other.
template <std::size_t kTogether>
void search(const SortedFeature* features, std::span<const double> weights, double total0,
            double total1, Candidate* best) {
  const std::size_t n = weights.size();
  std::array<double, kTogether> sum0{}, sum1{};
  for (std::size_t begin = 0; begin < n; begin += kChunk) {
    const std::size_t end = std::min(n, begin + kChunk);
    const std::array<double, kTogether> before0 = sum0, before1 = sum1;
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t f = 0; f < kTogether; ++f)
        add_weight(features[f].entries[i], weights, sum0[f], sum1[f]);
    for (std::size_t f = 0; f < kTogether; ++f) {
      if (merit_bound({before0[f], before1[f]}, {sum0[f], sum1[f]}, total0, total1) <=
          best[f].merit)
        continue;
      double left0 = before0[f], left1 = before1[f];
      for (std::size_t i = begin; i < end; ++i) {
        if (features[f].may_split[i] != 0) {
          const double merit = merit_of(left0, left1, total0, total1);
          if (merit > best[f].merit) best[f] = {merit, i};
        }
        add_weight(features[f].entries[i], weights, left0, left1);
      }
    }
  }
}

// The best stump for the given weights; `position` 0 if no feature can be split.
struct Stump {
  std::size_t feature = 0;
  std::size_t position = 0;
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
      stump = {f, best_[f].position};
    }
    return stump;
  }

 private:
  std::vector<SortedFeature> features_;
  std::vector<Candidate> best_;
  unsigned workers_;
};

// Points by where they are and what they are: 2 * (0 left of the stump, 1 right) + label.
using CellSums = std::array<double, 4>;

CellSums sum_cells(std::span<const double> weights, std::span<const std::uint8_t> cells) {
  // Several sums per cell, so that an addition need not wait for the one before.
  constexpr std::size_t kLanes = 8;
  double sums[kLanes][4] = {};
  std::size_t i = 0;
  for (; i + kLanes <= weights.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      sums[lane][cells[i + lane]] += weights[i + lane];
  for (; i < weights.size(); ++i) sums[0][cells[i]] += weights[i];
  CellSums result{};
  for (const auto& lane : sums)
    for (std::size_t cell = 0; cell < 4; ++cell) result[cell] += lane[cell];
  return result;
}

// What a stump with these leaves contributes: votes left and right, and by what the weights in each
// cell are multiplied.
struct Boost {
  double error = 0;
  double vote[2] = {};
  CellSums factor{};
};

Boost boost_of(const CellSums& leaf, bool real) {
  Boost boost;
  const double total = leaf[0] + leaf[1] + leaf[2] + leaf[3];
  boost.error = (std::min(leaf[0], leaf[1]) + std::min(leaf[2], leaf[3])) / total;
  const double stump_weight = boost.error > 0 ? std::log((1 - boost.error) / boost.error) : 1.0;
  for (std::size_t side = 0; side < 2; ++side) {
    const double w0 = leaf[2 * side], w1 = leaf[2 * side + 1], sum = w0 + w1;
    if (sum == 0) continue;  // no point is there
    double& vote = boost.vote[side];
    if (real) {
      vote = std::log(std::max(w1 / sum, kEpsilon)) - std::log(std::max(w0 / sum, kEpsilon));
      boost.factor[2 * side] = std::exp(vote / 2);
      boost.factor[2 * side + 1] = std::exp(-vote / 2);
    } else {
      const bool answer = w1 > w0;
      vote = answer ? stump_weight : -stump_weight;
      boost.factor[2 * side] = answer ? std::exp(stump_weight) : 1;
      boost.factor[2 * side + 1] = answer ? 1 : std::exp(stump_weight);
    }
  }
  return boost;
}

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
  std::vector<std::uint8_t> cells(n);
  double weight_sum = 1;
  for (std::size_t round = 0; round < options.stumps; ++round) {
    // Rounding must not take a point out of the game for good.
    for (std::size_t i = 0; i < n; ++i) {
      weights[i] = std::max(weights[i] / weight_sum, kEpsilon);
      cells[i] = y[i] != 0 ? 1 : 0;
    }
    const CellSums labels = sum_cells(weights, cells);
    const Stump stump = search.best(weights, labels[0], labels[1]);
    float threshold = std::numeric_limits<float>::infinity();
    if (stump.position != 0) {
      const std::vector<std::uint32_t>& entries = search.feature(stump.feature).entries;
      threshold = threshold_of(x(entries[stump.position - 1] >> 1, stump.feature),
                               x(entries[stump.position] >> 1, stump.feature));
      for (std::size_t i = stump.position; i < n; ++i) cells[entries[i] >> 1] |= 2;
    }
    // The leaves are summed anew: the difference of two large sums would not be 0 in a pure leaf.
    const Boost boost = boost_of(sum_cells(weights, cells), real);
    if (!real && boost.error >= 0.5) {
      // No better than guessing: boosting ends. (scikit-learn refuses if the first stump is; here
      // it is kept, and guesses.)
      if (parts.empty()) parts.push_back({0, threshold, 0, 0});
      break;
    }
    parts.push_back({stump.feature, threshold, boost.vote[0], boost.vote[1]});
    if (boost.error <= 0) break;
    for (std::size_t i = 0; i < n; ++i) weights[i] *= boost.factor[cells[i]];
    const CellSums sums = sum_cells(weights, cells);
    weight_sum = sums[0] + sums[1] + sums[2] + sums[3];
    if (!std::isfinite(weight_sum) || weight_sum <= 0) break;
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
