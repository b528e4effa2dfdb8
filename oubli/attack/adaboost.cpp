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
// A feature's order is cut into so many chunks at most, each of so many places at least; the chunks
// of a feature, with two sums each, fit into the first cache.
constexpr std::size_t kMostChunks = 1024;
constexpr std::size_t kLeastChunk = 64;
// Points are summed in so many blocks apart. More would share out more evenly, but all sums go from
// core to core.
constexpr std::size_t kMostBlocks = 2;
constexpr std::size_t kPassBlock = 1U << 12U;  // points of one task that changes weights

// Weights of the two labels.
using LabelSums = std::array<double, 2>;

struct Candidate {
  double merit = -std::numeric_limits<double>::infinity();
  std::size_t position = 0;  // the split is before this place in the feature's order
};

// Sums of squared label weights over the weight, left plus right: what the least Gini impurity
// makes largest.
double merit_of(const LabelSums& left, const LabelSums& total) {
  const double right0 = total[0] - left[0], right1 = total[1] - left[1];
  return (left[0] * left[0] + left[1] * left[1]) / (left[0] + left[1]) +
         (right0 * right0 + right1 * right1) / (right0 + right1);
}

struct Feature {
  std::vector<float> values;
  // Places in ascending order of the values. entry: point << 1 | label.
  std::vector<std::uint32_t> entries;
  std::vector<std::uint8_t> may_split;  // [i]: a split before place i parts different values
  std::vector<std::uint16_t> keys;      // [point]: its chunk << 1 | label
};

Feature sort_feature(MatrixView<const float> x, std::span<const std::uint8_t> y,
                     std::size_t feature, std::size_t chunk, std::vector<std::uint64_t>& scratch) {
  const std::size_t n = x.rows();
  Feature sorted;
  sorted.values.resize(n);
  for (std::size_t i = 0; i < n; ++i) sorted.values[i] = x.data()[i * x.cols() + feature];
  sorted.entries = radix_order(sorted.values.data(), n, 1, scratch);
  sorted.may_split.resize(n);
  float before = std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < n; ++i) {
    const float value = sorted.values[sorted.entries[i]];
    sorted.may_split[i] = value > before + kSameValue ? 1 : 0;
    before = value;
  }
  sorted.keys.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t& entry = sorted.entries[i];
    const std::uint32_t label = y[entry] != 0 ? 1 : 0;
    sorted.keys[entry] = static_cast<std::uint16_t>(i / chunk << 1 | label);
    entry = entry << 1 | label;
  }
  return sorted;
}

// Adds the weight of the point of `entry` to the sum of its label. Without a branch: it would be
// mispredicted half the time.
void add_weight(std::uint32_t entry, std::span<const double> weights, LabelSums& sums) {
  const double weight = weights[entry >> 1];
  const double one = std::bit_cast<double>(std::bit_cast<std::uint64_t>(weight) &
                                           (0 - static_cast<std::uint64_t>(entry & 1U)));
  sums[0] += weight - one;  // exact: 0 or weight
  sums[1] += one;
}

// No split within a chunk is better than the best corner of the rectangle between the sums at its
// beginning and at its end, because x^2 / y and with it the merit are convex.
double merit_bound(const LabelSums& begin, const LabelSums& end, const LabelSums& total) {
  double bound = -std::numeric_limits<double>::infinity();
  for (const double left0 : {begin[0], end[0]}) {
    for (const double left1 : {begin[1], end[1]}) {
      // The whole on one side: the limit of the merit, as if nothing were split.
      const double l = left0 + left1, r = total[0] + total[1] - l;
      const double merit =
          l > 0 && r > 0 ? merit_of({left0, left1}, total)
                         : (total[0] * total[0] + total[1] * total[1]) / (total[0] + total[1]);
      bound = std::max(bound, merit);
    }
  }
  return bound * (1 + 1e-12);
}

// What the points of one block weigh in every chunk of a feature.
using ChunkSums = std::array<LabelSums, kMostChunks>;

// In the points' own order, not in the feature's: weights are read one after another, and the sums
// stay in the cache, where weights taken in the feature's order come from anywhere.
void sum_chunks(const std::uint16_t* keys, const double* weights, std::size_t count,
                ChunkSums& sums) {
  sums = {};
  double* flat = sums[0].data();
  for (std::size_t i = 0; i < count; ++i) flat[keys[i]] += weights[i];
}

// `blocks`: the sums of every block of points.
Candidate best_split(const Feature& feature, std::span<const ChunkSums> blocks, std::size_t chunk,
                     std::span<const double> weights, const LabelSums& total) {
  const std::size_t n = weights.size(), chunks = (n + chunk - 1) / chunk;
  // What lies left of each chunk, and the best split between two chunks.
  std::array<LabelSums, kMostChunks + 1> left;
  left[0] = {};
  double least = -std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < chunks; ++c) {
    left[c + 1] = left[c];
    for (const ChunkSums& block : blocks)
      for (std::size_t label = 0; label < 2; ++label) left[c + 1][label] += block[c][label];
    if (feature.may_split[c * chunk] != 0) least = std::max(least, merit_of(left[c], total));
  }
  Candidate best;
  for (std::size_t c = 0; c < chunks; ++c) {
    const double bound = merit_bound(left[c], left[c + 1], total);
    if (bound < least || bound <= best.merit) continue;
    LabelSums sums = left[c];
    for (std::size_t i = c * chunk; i < std::min(n, (c + 1) * chunk); ++i) {
      if (feature.may_split[i] != 0)
        if (const double merit = merit_of(sums, total); merit > best.merit) best = {merit, i};
      add_weight(feature.entries[i], weights, sums);
    }
  }
  return best;
}

// The best stump for the given weights; `position` 0 if no feature can be split.
struct Stump {
  std::size_t feature = 0;
  std::size_t position = 0;
};

class StumpSearch {
 public:
  StumpSearch(MatrixView<const float> x, std::span<const std::uint8_t> y, Team& team)
      : features_(x.cols()),
        chunk_(std::max(kLeastChunk, (x.rows() + kMostChunks - 1) / kMostChunks)),
        blocks_(std::min(kMostBlocks, x.rows())),
        sums_(features_.size() * blocks_),
        best_(x.cols()),
        team_(team) {
    std::vector<std::vector<std::uint64_t>> scratch(team.workers());
    team.run(x.cols(), [&](std::size_t f, unsigned worker) {
      features_[f] = sort_feature(x, y, f, chunk_, scratch[worker]);
    });
  }

  [[nodiscard]] const Feature& feature(std::size_t f) const { return features_[f]; }

  Stump best(std::span<const double> weights, const LabelSums& total) {
    team_.run_shares(features_.size() * blocks_, [&](std::size_t task, unsigned) {
      const std::size_t f = task % features_.size(), block = task / features_.size();
      const std::size_t begin = weights.size() * block / blocks_;
      const std::size_t count = weights.size() * (block + 1) / blocks_ - begin;
      sum_chunks(features_[f].keys.data() + begin, weights.data() + begin, count,
                 sums_[f * blocks_ + block]);
    });
    team_.run_shares(features_.size(), [&](std::size_t f, unsigned) {
      best_[f] = best_split(features_[f], std::span(sums_).subspan(f * blocks_, blocks_), chunk_,
                            weights, total);
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
  std::vector<Feature> features_;
  std::size_t chunk_;  // places in a chunk of a feature's order
  std::size_t blocks_;
  std::vector<ChunkSums> sums_;  // [feature * blocks_ + block]
  std::vector<Candidate> best_;
  Team& team_;
};

// Points by where they are and what they are: 2 * (0 left of the stump, 1 right) + label.
using CellSums = std::array<double, 4>;

CellSums sum_cells(const double* weights, const std::uint8_t* cells, std::size_t count) {
  // Several sums per cell, so that an addition need not wait for the one before.
  constexpr std::size_t kLanes = 8;
  double sums[kLanes][4] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      sums[lane][cells[i + lane]] += weights[i + lane];
  for (; i < count; ++i) sums[0][cells[i]] += weights[i];
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

  Team team(options.workers);
  StumpSearch search(x, y, team);
  std::vector<double> weights(n, 1.0 / static_cast<double>(n));
  std::vector<std::uint8_t> cells(n);
  std::vector<CellSums> block_sums((n + kPassBlock - 1) / kPassBlock);
  // Changes every point i by change(i) and sums the weights of the cells; always by the same
  // blocks, so that sums do not depend on the number of workers.
  const auto pass = [&](const auto& change) {
    team.run_shares(block_sums.size(), [&](std::size_t block, unsigned) {
      const std::size_t begin = block * kPassBlock, end = std::min(n, begin + kPassBlock);
      for (std::size_t i = begin; i < end; ++i) change(i);
      block_sums[block] = sum_cells(weights.data() + begin, cells.data() + begin, end - begin);
    });
    CellSums sums{};
    for (const CellSums& block : block_sums)
      for (std::size_t cell = 0; cell < 4; ++cell) sums[cell] += block[cell];
    return sums;
  };
  double weight_sum = 1;
  for (std::size_t round = 0; round < options.stumps; ++round) {
    const CellSums labels = pass([&](std::size_t i) {
      // Rounding must not take a point out of the game for good.
      weights[i] = std::max(weights[i] / weight_sum, kEpsilon);
      cells[i] = y[i] != 0 ? 1 : 0;
    });
    const Stump stump = search.best(weights, {labels[0], labels[1]});
    const Feature& feature = search.feature(stump.feature);
    float threshold = std::numeric_limits<float>::infinity();
    if (stump.position != 0)
      threshold = threshold_of(feature.values[feature.entries[stump.position - 1] >> 1],
                               feature.values[feature.entries[stump.position] >> 1]);
    // The leaves are summed anew: the difference of two large sums would not be 0 in a pure leaf.
    const CellSums leaves = pass([&, threshold, values = feature.values.data()](std::size_t i) {
      cells[i] = static_cast<std::uint8_t>(cells[i] | (values[i] > threshold ? 2U : 0U));
    });
    const Boost boost = boost_of(leaves, real);
    if (!real && boost.error >= 0.5) {
      // No better than guessing: boosting ends. (scikit-learn refuses if the first stump is; here
      // it is kept, and guesses.)
      if (parts.empty()) parts.push_back({0, threshold, 0, 0});
      break;
    }
    parts.push_back({stump.feature, threshold, boost.vote[0], boost.vote[1]});
    if (boost.error <= 0) break;
    const CellSums sums = pass([&](std::size_t i) { weights[i] *= boost.factor[cells[i]]; });
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
