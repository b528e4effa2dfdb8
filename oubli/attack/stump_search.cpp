#include "oubli/attack/stump_search.h"

#include <algorithm>
#include <cmath>

#include "oubli/attack/radix_sort.h"
#include "oubli/attack/transpose.h"
#include "oubli/base/error.h"

namespace oubli {
namespace {

// Neighbouring values that are not further apart count as equal, as in scikit-learn.
constexpr float kSameValue = 1e-7F;
constexpr std::size_t kLeastChunk = 64;

// The sum of squared label weights over the weight. That of the left plus that of the right is what
// the least Gini impurity makes largest. 0 where nothing is.
double merit_of(double zeros, double ones) {
  constexpr double kNothing = std::numeric_limits<double>::min();
  return (zeros * zeros + ones * ones) / std::max(zeros + ones, kNothing);
}

// Halfway between the values around the split, as a float that parts the same points as the
// exact midpoint: x <= midpoint just if x <= the midpoint rounded down.
float threshold_between(float low, float high) {
  const double middle = static_cast<double>(low) / 2 + static_cast<double>(high) / 2;
  auto rounded = static_cast<float>(middle);
  if (static_cast<double>(rounded) > middle)
    rounded = std::nextafter(rounded, -std::numeric_limits<float>::infinity());
  return rounded < high ? rounded : low;
}

// Where each point of the search comes from: those of label 0 in order, then those of label 1.
std::vector<std::uint32_t> by_label(std::span<const std::uint8_t> y) {
  std::vector<std::uint32_t> order(y.size());
  std::size_t next = 0;
  for (const bool label : {false, true})
    for (std::size_t i = 0; i < y.size(); ++i)
      if ((y[i] != 0) == label) order[next++] = static_cast<std::uint32_t>(i);
  return order;
}

}  // namespace

StumpSearch::StumpSearch(MatrixView<const float> x, std::span<const std::uint8_t> y, Team& team)
    : points_(x.rows()),
      zeros_(static_cast<std::size_t>(std::ranges::count(y, std::uint8_t{0}))),
      chunk_(std::max(kLeastChunk, (x.rows() + kMostChunks - 1) / kMostChunks)),
      values_(transposed(x, team, by_label(y))),
      features_(x.cols()),
      sides_(x.cols()),
      workers_(team.workers()),
      team_(team) {
  OUBLI_ASSERT(x.rows() == y.size() && x.rows() < (1U << 31U) && x.cols() > 0);
  for_each_sorted_column<std::uint64_t>(
      x.cols(), points_, team,
      [&](std::size_t f, std::size_t first, std::span<std::uint64_t> keys) {
        const float* values = values_.row(f).data() + first;
        for (std::size_t i = 0; i < keys.size(); ++i)
          keys[i] = static_cast<std::uint64_t>(order_key(values[i])) << 32 | (first + i);
      },
      [&](std::size_t f, std::span<const std::uint64_t> sorted) {
        Feature& feature = features_[f];
        feature.entries.resize(points_);
        feature.chunk_of.resize(points_);
        float before = std::numeric_limits<float>::infinity();
        std::uint16_t chunk = 0;
        for (std::size_t begin = 0; begin < points_; begin += chunk_, ++chunk) {
          for (std::size_t i = begin; i < std::min(points_, begin + chunk_); ++i) {
            const float value = value_of_key(static_cast<std::uint32_t>(sorted[i] >> 32));
            const auto point = static_cast<std::uint32_t>(sorted[i]);
            feature.entries[i] = point << 1 | (value > before + kSameValue ? 1U : 0U);
            feature.chunk_of[point] = chunk;
            before = value;
          }
        }
      });
}

void StumpSearch::reweigh(const Stump& stump, const PerLabel& left, const PerLabel& right,
                          double least) {
  changes_.push_back({stump.feature, stump.threshold, left, right, least});
}

std::span<const double> StumpSearch::weights_of(Worker& worker) const {
  if (worker.weights.empty()) worker.weights.assign(points_, 1 / static_cast<double>(points_));
  for (; worker.changes < changes_.size(); ++worker.changes) {
    const Change& change = changes_[worker.changes];
    const float* values = values_.row(change.feature).data();
    double* weights = worker.weights.data();
    for (std::size_t label = 0; label < 2; ++label) {
      const double left = change.left[label], right = change.right[label];
      for (std::size_t i = begin_of(label); i < end_of(label); ++i)
        weights[i] =
            std::max(weights[i] * (values[i] > change.threshold ? right : left), change.least);
    }
  }
  return worker.weights;
}

Stump StumpSearch::best() {
  team_.run_shares(2 * features_.size(), [&](std::size_t task, unsigned worker) {
    sum_chunks(task / 2, task % 2, weights_of(workers_[worker]));
  });
  team_.run_shares(features_.size(), [&](std::size_t f, unsigned) { sum_sides(f); });

  // The chunk that begins with the best split known so far, then all that could hold a better one.
  std::size_t first = 0;
  for (std::size_t f = 0; f < features_.size(); ++f)
    if (sides_[f].best != 0 &&
        (sides_[first].best == 0 ||
         sides_[f].merit[sides_[f].best] > sides_[first].merit[sides_[first].best]))
      first = f;
  Candidate& best = workers_[0].best = {};
  if (sides_[first].best != 0) look_into(first, sides_[first].best, workers_[0]);
  worth_a_look_.clear();
  for (std::size_t f = 0; f < features_.size(); ++f) {
    if (sides_[f].highest < best.merit) continue;
    for (std::size_t c = 0; c < chunks(); ++c)
      if (sides_[f].bound[c] >= best.merit)
        worth_a_look_.emplace_back(static_cast<std::uint32_t>(f), static_cast<std::uint32_t>(c));
  }
  for (Worker& worker : workers_) worker.best = best;
  team_.run_shares(worth_a_look_.size(), [&](std::size_t n, unsigned worker) {
    const auto [f, c] = worth_a_look_[n];
    if (sides_[f].bound[c] >= workers_[worker].best.merit) look_into(f, c, workers_[worker]);
  });
  for (const Worker& worker : workers_)
    if (is_better(worker.best, best)) best = worker.best;

  Stump stump{.feature = best.feature, .left = best.left, .right = best.right};
  if (best.position == 0) {
    stump.left = {sides_[0].right0[0], sides_[0].right1[0]};
    return stump;
  }
  const auto value_at = [&](std::size_t place) {
    return values_(best.feature, features_[best.feature].entries[place] >> 1);
  };
  stump.threshold = threshold_between(value_at(best.position - 1), value_at(best.position));
  return stump;
}

void StumpSearch::sum_chunks(std::size_t f, std::size_t label, std::span<const double> weights) {
  PerChunk& sums = features_[f].sums[label];
  sums = {};
  const std::uint16_t* chunk_of = features_[f].chunk_of.data();
  for (std::size_t i = begin_of(label); i < end_of(label); ++i) sums[chunk_of[i]] += weights[i];
}

void StumpSearch::sum_sides(std::size_t f) {
  auto& [left0, left1, right0, right1, merit, bound, highest, best] = sides_[f];
  const auto& [zeros, ones] = features_[f].sums;
  const std::size_t count = chunks();
  left0[0] = left1[0] = right0[count] = right1[count] = 0;
  for (std::size_t c = 0; c < count; ++c) {
    left0[c + 1] = left0[c] + zeros[c];
    left1[c + 1] = left1[c] + ones[c];
  }
  for (std::size_t c = count; c-- > 0;) {
    right0[c] = right0[c + 1] + zeros[c];
    right1[c] = right1[c + 1] + ones[c];
  }
  for (std::size_t c = 0; c <= count; ++c)
    merit[c] = merit_of(left0[c], left1[c]) + merit_of(right0[c], right1[c]);
  // No split within a chunk is better than the best corner of the rectangle between the sums at its
  // beginning and at its end, because x^2 / y and with it the merit are convex.
  for (std::size_t c = 0; c < count; ++c) {
    const double corners =
        std::max(merit_of(left0[c], left1[c + 1]) + merit_of(right0[c], right1[c + 1]),
                 merit_of(left0[c + 1], left1[c]) + merit_of(right0[c + 1], right1[c]));
    bound[c] = std::max(std::max(merit[c], merit[c + 1]), corners) * (1 + 1e-12);
  }
  highest = *std::max_element(bound.begin(), bound.begin() + static_cast<std::ptrdiff_t>(count));
  best = 0;
  for (std::size_t c = 1; c < count; ++c)
    if ((features_[f].entries[c * chunk_] & 1U) != 0 && (best == 0 || merit[c] > merit[best]))
      best = c;
}

bool StumpSearch::is_better(const Candidate& a, const Candidate& b) {
  if (a.merit != b.merit) return a.merit > b.merit;
  return std::pair(a.feature, a.position) < std::pair(b.feature, b.position);
}

void StumpSearch::look_into(std::size_t f, std::size_t chunk, Worker& worker) const {
  const Feature& feature = features_[f];
  const Sides& sides = sides_[f];
  const std::span<const double> weights = weights_of(worker);
  const std::size_t begin = chunk * chunk_, end = std::min(points_, begin + chunk_);
  PerLabel right{sides.right0[chunk + 1], sides.right1[chunk + 1]};
  PerLabel left{sides.left0[chunk], sides.left1[chunk]};
  const auto add = [&](std::uint32_t entry, PerLabel& sums) {
    const std::uint32_t point = entry >> 1;
    // Without a branch: it would be mispredicted half the time.
    sums[0] += point < zeros_ ? weights[point] : 0;
    sums[1] += point < zeros_ ? 0 : weights[point];
  };
  std::vector<PerLabel>& right_of = worker.right_of;
  right_of.resize(chunk_);
  for (std::size_t i = end; i-- > begin;) {
    add(feature.entries[i], right);
    right_of[i - begin] = right;
  }
  for (std::size_t i = begin; i < end; ++i) {
    const PerLabel& rest = right_of[i - begin];
    if ((feature.entries[i] & 1U) != 0) {
      const double merit = merit_of(left[0], left[1]) + merit_of(rest[0], rest[1]);
      if (const Candidate found{merit, f, i, left, rest}; is_better(found, worker.best))
        worker.best = found;
    }
    add(feature.entries[i], left);
  }
}

}  // namespace oubli
