#include "oubli/attack/stump_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "oubli/attack/transpose.h"
#include "oubli/base/error.h"

namespace oubli {
namespace {

// Neighbouring values that are not further apart count as equal, as in scikit-learn.
constexpr float kSameValue = 1e-7F;
// Points of a chunk, on average and at least.
constexpr std::size_t kLeastChunk = 64;
// Chunks are found from this many points per chunk: their sizes then differ by a quarter.
constexpr std::size_t kSampledPerChunk = 16;

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

// Every n-th point.
Matrix<float> sample(const Matrix<float>& values, std::size_t most, Team& team) {
  const std::size_t points = values.cols(), count = std::min(points, most);
  auto some = Matrix<float>::for_overwrite(values.rows(), count);
  team.run(values.rows(), [&](std::size_t f, unsigned) {
    for (std::size_t i = 0; i < count; ++i) some(f, i) = values(f, i * points / count);
  });
  return some;
}

// The place of every value in ascending order, equal ones as they come. A few hundred are compared
// each with each: whole vectors at a time, and without a branch that could be mispredicted.
void places_in_order(std::span<const float> values, std::vector<std::uint32_t>& places) {
  constexpr std::size_t kFew = 1024;
  const std::size_t count = values.size();
  places.assign(count, 0);
  if (count <= kFew) {
    std::array<std::uint32_t, kFew> equal{};  // met so far, by the place of the first of them
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t below = 0;
      for (std::size_t j = 0; j < count; ++j) below += values[j] < values[i] ? 1U : 0U;
      places[i] = below + equal[below]++;
    }
    return;
  }
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return values[i]; });
  for (std::size_t place = 0; place < count; ++place)
    places[order[place]] = static_cast<std::uint32_t>(place);
}

}  // namespace

StumpSearch::StumpSearch(MatrixView<const float> x, std::span<const std::uint8_t> y, Team& team)
    : points_(x.rows()),
      zeros_(static_cast<std::size_t>(std::ranges::count(y, std::uint8_t{0}))),
      values_(transposed(x, team, by_label(y, zeros_, team).flat())),
      orders_(x.cols()),
      points_by_chunk_(Matrix<std::uint32_t>::for_overwrite(x.cols(), x.rows())),
      weights_(Matrix<double>::for_overwrite(1, x.rows())),
      sides_(x.cols()),
      workers_(team.workers()),
      team_(team) {
  OUBLI_ASSERT(x.rows() == y.size() && x.rows() < (1U << 31U) && x.cols() > 0);
  const std::size_t chunks = std::clamp(points_ / kLeastChunk, std::size_t{1}, kMostChunks);
  bins_ = Bins::fit(sample(values_, kSampledPerChunk * chunks, team), team, chunks);
  chunk_of_ = bins_.columns(values_, team);
  for (std::size_t f = 0; f < features(); ++f) {
    orders_[f].chunks = bins_.edges(f).size() + 1;
    orders_[f].points = points_by_chunk_.row(f);
    orders_[f].sorted.resize(orders_[f].chunks);
    orders_[f].begin.resize(orders_[f].chunks + 1);
    most_chunks_ = std::max(most_chunks_, orders_[f].chunks);
  }
  for (Sides& sides : sides_)
    for (PerChunk* sums :
         {&sides.left0, &sides.left1, &sides.right0, &sides.right1, &sides.merit, &sides.bound})
      sums->resize(most_chunks_ + 1);
  fill_chunks();
  for_each_group([&](std::size_t group, std::size_t, std::size_t begin, std::size_t end) {
    sums_[group] = GroupSums::for_overwrite(features(), most_chunks_);
    std::fill(weights_.data() + begin, weights_.data() + end, 1 / static_cast<double>(points_));
  });
}

void StumpSearch::fill_chunks() {
  // Of a group's points in every chunk of every feature: how many; then where the next one goes.
  std::array<Matrix<std::uint32_t>, 2 * kGroups> places;
  for_each_group([&](std::size_t group, std::size_t, std::size_t begin, std::size_t end) {
    places[group] = Matrix<std::uint32_t>(features(), most_chunks_);
    for (std::size_t f = 0; f < features(); ++f) {
      std::uint32_t* count = places[group].row(f).data();
      const std::uint16_t* chunk_of = chunk_of_.row(f).data();
      for (std::size_t i = begin; i < end; ++i) ++count[chunk_of[i]];
    }
  });
  for (std::size_t f = 0; f < features(); ++f) {
    Order& order = orders_[f];
    std::uint32_t place = 0;
    for (std::size_t c = 0; c < order.chunks; ++c) {
      order.begin[c] = place;
      for (auto& group : places) place += std::exchange(group(f, c), place);
    }
    order.begin[order.chunks] = place;
  }
  for_each_group([&](std::size_t group, std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t f = 0; f < features(); ++f) {
      std::uint32_t* place = places[group].row(f).data();
      std::uint32_t* points = points_by_chunk_.row(f).data();
      const std::uint16_t* chunk_of = chunk_of_.row(f).data();
      for (std::size_t i = begin; i < end; ++i)
        points[place[chunk_of[i]]++] = static_cast<std::uint32_t>(i);
    }
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
  for (std::size_t f = 1; f < features(); ++f)
    if (sides_[f].merit[sides_[f].best] > sides_[first].merit[sides_[first].best]) first = f;
  Candidate& best = workers_[0].best = {};
  look_into(first, sides_[first].best, workers_[0]);
  worth_a_look_.clear();
  for (std::size_t f = 0; f < features(); ++f) {
    if (sides_[f].highest < best.merit) continue;
    for (std::size_t c = 0; c < chunks(f); ++c)
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
  if (best.place == kNone) {
    stump.left = {sides_[0].right0[0], sides_[0].right1[0]};
    return stump;
  }
  const std::vector<std::uint32_t>& sorted = orders_[best.feature].sorted[best.chunk];
  const auto value_at = [&](std::size_t place) {
    return values_(best.feature, sorted[place] >> 1);
  };
  stump.threshold = threshold_between(
      best.place == 0 ? highest_in(best.feature, best.chunk - 1) : value_at(best.place - 1),
      value_at(best.place));
  return stump;
}

void StumpSearch::sum_group(std::size_t group, std::size_t begin, std::size_t end) {
  const double* weights = weights_.data();
  for (std::size_t f = 0; f < features(); ++f) {
    double* sums = sums_[group].row(f).data();
    std::fill_n(sums, chunks(f), 0.0);
    const std::uint16_t* chunk_of = chunk_of_.row(f).data();
    for (std::size_t i = begin; i < end; ++i) sums[chunk_of[i]] += weights[i];
  }
}

void StumpSearch::sum_sides(std::size_t f) {
  auto& [left0, left1, right0, right1, merit, bound, highest, best] = sides_[f];
  const std::size_t count = chunks(f);
  std::array<double, kMostChunks> zeros, ones;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::size_t c = 0; c < count; ++c) {
    zeros[c] = ones[c] = 0;
    for (std::size_t group = 0; group < kGroups; ++group) {
      zeros[c] += sums_[group](f, c);
      ones[c] += sums_[kGroups + group](f, c);
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
  best = static_cast<std::size_t>(
      std::max_element(merit.begin(), merit.begin() + static_cast<std::ptrdiff_t>(count)) -
      merit.begin());
}

bool StumpSearch::is_better(const Candidate& a, const Candidate& b) {
  if (a.merit != b.merit) return a.merit > b.merit;
  return std::tuple(a.feature, a.chunk, a.place) < std::tuple(b.feature, b.chunk, b.place);
}

float StumpSearch::highest_in(std::size_t f, std::size_t chunk) const {
  const float* values = values_.row(f).data();
  float highest = -std::numeric_limits<float>::infinity();
  for (const std::uint32_t point : orders_[f].chunk(chunk))
    highest = std::max(highest, values[point]);
  return highest;
}

void StumpSearch::sort_chunk(std::size_t f, std::size_t chunk, Worker& worker) {
  const std::span points = orders_[f].chunk(chunk);
  const std::size_t count = points.size();
  std::vector<float>& values = worker.values;
  std::vector<std::uint32_t>& places = worker.places;
  values.resize(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = values_.row(f)[points[i]];
  places_in_order(values, places);

  std::vector<std::uint32_t>& sorted = orders_[f].sorted[chunk];
  sorted.resize(count);
  std::vector<float>& ascending = worker.ascending;
  ascending.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    sorted[places[i]] = points[i] << 1;
    ascending[places[i]] = values[i];
  }
  for (std::size_t i = 1; i < count; ++i)
    sorted[i] |= ascending[i] > ascending[i - 1] + kSameValue ? 1U : 0U;
  // What lies before the chunk is at most the edge: mostly enough to know.
  if (chunk > 0 && (ascending[0] > bins_.edges(f)[chunk - 1] + kSameValue ||
                    ascending[0] > highest_in(f, chunk - 1) + kSameValue))
    sorted[0] |= 1U;
}

void StumpSearch::look_into(std::size_t f, std::size_t chunk, Worker& worker) {
  if (orders_[f].sorted[chunk].empty()) sort_chunk(f, chunk, worker);
  const std::span<const std::uint32_t> entries = orders_[f].sorted[chunk];
  const Sides& sides = sides_[f];
  const double* weights = weights_.data();
  PerLabel right{sides.right0[chunk + 1], sides.right1[chunk + 1]};
  PerLabel left{sides.left0[chunk], sides.left1[chunk]};
  const auto add = [&](std::uint32_t entry, PerLabel& sums) {
    const std::uint32_t point = entry >> 1;
    // Without a branch: it would be mispredicted half the time.
    sums[0] += point < zeros_ ? weights[point] : 0;
    sums[1] += point < zeros_ ? 0 : weights[point];
  };
  std::vector<PerLabel>& right_of = worker.right_of;
  right_of.resize(entries.size());
  for (std::size_t i = entries.size(); i-- > 0;) {
    add(entries[i], right);
    right_of[i] = right;
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const PerLabel& rest = right_of[i];
    if ((entries[i] & 1U) != 0) {
      const double merit = merit_of(left[0], left[1]) + merit_of(rest[0], rest[1]);
      if (const Candidate found{merit, f, chunk, i, left, rest}; is_better(found, worker.best))
        worker.best = found;
    }
    add(entries[i], left);
  }
}

}  // namespace oubli
