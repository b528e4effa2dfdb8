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
Matrix<std::uint32_t> by_label(std::span<const std::uint8_t> y, std::size_t zeros, Team& team) {
  auto order = Matrix<std::uint32_t>::for_overwrite(1, y.size());
  team.run(2, [&](std::size_t label, unsigned) {
    std::uint32_t* next = order.data() + (label == 0 ? 0 : zeros);
    for (std::size_t i = 0; i < y.size(); ++i)
      if ((y[i] != 0) == (label != 0)) *next++ = static_cast<std::uint32_t>(i);
  });
  return order;
}

}  // namespace

StumpSearch::StumpSearch(MatrixView<const float> x, std::span<const std::uint8_t> y, Team& team)
    : points_(x.rows()),
      zeros_(static_cast<std::size_t>(std::ranges::count(y, std::uint8_t{0}))),
      chunk_(std::max(kLeastChunk, (x.rows() + kMostChunks - 1) / kMostChunks)),
      values_(transposed(x, team, by_label(y, zeros_, team).flat())),
      entries_(Matrix<std::uint32_t>::for_overwrite(x.cols(), x.rows())),
      chunk_of_(Matrix<std::uint16_t>::for_overwrite(x.cols(), x.rows())),
      weights_(Matrix<double>::for_overwrite(1, x.rows())),
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
      [&](std::size_t f, std::span<const std::uint64_t> sorted, std::size_t begin,
          std::size_t end) {
        std::uint32_t* entries = entries_.row(f).data();
        std::uint16_t* chunk_of = chunk_of_.row(f).data();
        const auto value_at = [&](std::size_t place) {
          return value_of_key(static_cast<std::uint32_t>(sorted[place] >> 32));
        };
        float before = begin == 0 ? std::numeric_limits<float>::infinity() : value_at(begin - 1);
        for (std::size_t i = begin; i < end;) {
          const auto chunk = static_cast<std::uint16_t>(i / chunk_);
          for (const std::size_t last = std::min(end, (chunk + 1) * chunk_); i < last; ++i) {
            const float value = value_at(i);
            const auto point = static_cast<std::uint32_t>(sorted[i]);
            entries[i] = point << 1 | (value > before + kSameValue ? 1U : 0U);
            chunk_of[point] = chunk;
            before = value;
          }
        }
      });
  for_each_group([&](std::size_t group, std::size_t, std::size_t begin, std::size_t end) {
    sums_[group].resize(features());
    std::fill(weights_.data() + begin, weights_.data() + end, 1 / static_cast<double>(points_));
  });
}

void StumpSearch::reweigh(const Stump& stump, const PerLabel& left, const PerLabel& right,
                          double least) {
  OUBLI_ASSERT(!change_);  // best() comes between two of them
  change_ = {stump.feature, stump.threshold, left, right, least};
}

void StumpSearch::for_each_group(
    const std::function<void(std::size_t, std::size_t, std::size_t, std::size_t)>& act) {
  team_.run_shares(sums_.size(), [&](std::size_t group, unsigned) {
    const std::size_t label = group / kGroups, part = group % kGroups;
    const std::size_t first = label == 0 ? 0 : zeros_;
    const std::size_t count = label == 0 ? zeros_ : points_ - zeros_;
    act(group, label, first + count * part / kGroups, first + count * (part + 1) / kGroups);
  });
}

Stump StumpSearch::best() {
  for_each_group([&](std::size_t group, std::size_t label, std::size_t begin, std::size_t end) {
    if (change_) {
      const float* values = values_.row(change_->feature).data();
      double* weights = weights_.data();
      const double left = change_->left[label], right = change_->right[label];
      const double least = change_->least;
      const float threshold = change_->threshold;
      for (std::size_t i = begin; i < end; ++i)
        weights[i] = std::max(weights[i] * (values[i] > threshold ? right : left), least);
    }
    sum_group(group, begin, end);
  });
  change_.reset();
  team_.run_shares(features(), [&](std::size_t f, unsigned) { sum_sides(f); });

  // The chunk that begins with the best split known so far, then all that could hold a better one.
  std::size_t first = 0;
  for (std::size_t f = 0; f < features(); ++f)
    if (sides_[f].best != 0 &&
        (sides_[first].best == 0 ||
         sides_[f].merit[sides_[f].best] > sides_[first].merit[sides_[first].best]))
      first = f;
  Candidate& best = workers_[0].best = {};
  if (sides_[first].best != 0) look_into(first, sides_[first].best, workers_[0]);
  worth_a_look_.clear();
  for (std::size_t f = 0; f < features(); ++f) {
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
    return values_(best.feature, entries_(best.feature, place) >> 1);
  };
  stump.threshold = threshold_between(value_at(best.position - 1), value_at(best.position));
  return stump;
}

void StumpSearch::sum_group(std::size_t group, std::size_t begin, std::size_t end) {
  const double* weights = weights_.data();
  for (std::size_t f = 0; f < features(); ++f) {
    PerChunk& sums = sums_[group][f];
    sums = {};
    const std::uint16_t* chunk_of = chunk_of_.row(f).data();
    for (std::size_t i = begin; i < end; ++i) sums[chunk_of[i]] += weights[i];
  }
}

void StumpSearch::sum_sides(std::size_t f) {
  auto& [left0, left1, right0, right1, merit, bound, highest, best] = sides_[f];
  const std::size_t count = chunks();
  PerChunk zeros, ones;
  for (std::size_t c = 0; c < count; ++c) {
    zeros[c] = ones[c] = 0;
    for (std::size_t group = 0; group < kGroups; ++group) {
      zeros[c] += sums_[group][f][c];
      ones[c] += sums_[kGroups + group][f][c];
    }
  }
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
    if ((entries_(f, c * chunk_) & 1U) != 0 && (best == 0 || merit[c] > merit[best])) best = c;
}

bool StumpSearch::is_better(const Candidate& a, const Candidate& b) {
  if (a.merit != b.merit) return a.merit > b.merit;
  return std::pair(a.feature, a.position) < std::pair(b.feature, b.position);
}

void StumpSearch::look_into(std::size_t f, std::size_t chunk, Worker& worker) const {
  const std::uint32_t* entries = entries_.row(f).data();
  const Sides& sides = sides_[f];
  const double* weights = weights_.data();
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
    add(entries[i], right);
    right_of[i - begin] = right;
  }
  for (std::size_t i = begin; i < end; ++i) {
    const PerLabel& rest = right_of[i - begin];
    if ((entries[i] & 1U) != 0) {
      const double merit = merit_of(left[0], left[1]) + merit_of(rest[0], rest[1]);
      if (const Candidate found{merit, f, i, left, rest}; is_better(found, worker.best))
        worker.best = found;
    }
    add(entries[i], left);
  }
}

}  // namespace oubli
