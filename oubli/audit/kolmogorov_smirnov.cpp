#include "oubli/audit/kolmogorov_smirnov.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oubli/attack/transpose.h"
#include "oubli/base/error.h"
#include "oubli/base/random.h"

namespace oubli {
namespace {

// Two samples side by side: values[0, first) and values[first, end).
class KsSearch {
 public:
  void resize(std::size_t first, std::size_t second) {
    first_ = static_cast<std::int64_t>(first);
    second_ = static_cast<std::int64_t>(second);
    values_.resize(first + second);
    bin_of_.resize(first + second);
    bins_ = std::clamp<std::size_t>((first + second) / kPointsPerBin, 16, kMostBins);
  }
  [[nodiscard]] std::span<float> values() { return values_; }

  double statistic() {
    if (!make_histogram()) return 0;
    const std::int64_t bound = bound_at_edges();
    const std::int64_t largest = collect_promising(bound) ? refine(bound) : bound;
    return static_cast<double>(largest) /
           (static_cast<double>(first_) * static_cast<double>(second_));
  }

 private:
  static constexpr std::size_t kMostBins = 8192, kPointsPerBin = 4;

  // Differences of the two distribution functions are kept as whole numbers, times both sample
  // sizes: a point of the first sample adds step(0), one of the second step(1).
  [[nodiscard]] std::int64_t step(std::size_t sample) const {
    return sample == 0 ? second_ : -first_;
  }

  // False if all values are equal.
  bool make_histogram() {
    float low = values_[0], high = values_[0];
    for (const float value : values_) {
      low = value < low ? value : low;
      high = value > high ? value : high;
    }
    if (low == high) return false;
    float scale = static_cast<float>(bins_) / (high - low);
    if (!std::isfinite(scale) || !(scale > 0)) scale = 0;  // one bin: all are sorted
    const float last = static_cast<float>(bins_ - 1);
    // Every operation is monotone, so bins are in the order of the values.
    for (std::size_t i = 0; i < values_.size(); ++i) {
      float place = (values_[i] - low) * scale;
      place = place < last ? place : last;
      bin_of_[i] = static_cast<std::uint16_t>(static_cast<std::int32_t>(place));
    }
    const auto first = static_cast<std::size_t>(first_);
    for (auto& counts : counts_) counts.assign(bins_, 0);
    std::uint32_t* counts = counts_[0].data();
    for (std::size_t i = 0; i < first; ++i) ++counts[bin_of_[i]];
    counts = counts_[1].data();
    for (std::size_t i = first; i < values_.size(); ++i) ++counts[bin_of_[i]];
    return true;
  }

  // The largest difference at the bins' ends: a lower bound. Fills before_, the difference at their
  // beginnings.
  std::int64_t bound_at_edges() {
    before_.resize(bins_);
    std::int64_t difference = 0, largest = 0;
    for (std::size_t bin = 0; bin < bins_; ++bin) {
      before_[bin] = difference;
      difference += counts_[0][bin] * step(0) + counts_[1][bin] * step(1);
      largest = std::max(largest, std::abs(difference));
    }
    return largest;
  }

  // Within a bin the difference rises at most by its points of the first sample, and falls at most
  // by those of the second.
  [[nodiscard]] bool promising(std::size_t bin, std::int64_t bound) const {
    return before_[bin] + counts_[0][bin] * step(0) > bound ||
           before_[bin] + counts_[1][bin] * step(1) < -bound;
  }

  // Gathers the points of the bins that may hold more than `bound`, bin by bin.
  bool collect_promising(std::int64_t bound) {
    place_.assign(bins_, kNowhere);
    promising_.clear();
    std::uint32_t size = 0;
    for (std::size_t bin = 0; bin < bins_; ++bin) {
      if (!promising(bin, bound)) continue;
      promising_.push_back(static_cast<std::uint32_t>(bin));
      place_[bin] = size;
      size += counts_[0][bin] + counts_[1][bin];
    }
    if (promising_.empty()) return false;
    points_.resize(size);
    const auto first = static_cast<std::size_t>(first_);
    const auto take = [&](std::size_t begin, std::size_t end, std::int64_t weight) {
      for (std::size_t i = begin; i < end; ++i) {
        std::uint32_t& place = place_[bin_of_[i]];
        if (place != kNowhere) points_[place++] = {values_[i], weight};
      }
    };
    take(0, first, step(0));
    take(first, values_.size(), step(1));
    return true;
  }

  std::int64_t refine(std::int64_t largest) {
    for (const std::uint32_t bin : promising_) {
      if (!promising(bin, largest)) continue;
      const std::uint32_t end = place_[bin];  // moved to the end when it was filled
      const std::span<Point> points = std::span(points_).subspan(
          end - counts_[0][bin] - counts_[1][bin], counts_[0][bin] + counts_[1][bin]);
      std::ranges::sort(points, {}, &Point::value);
      std::int64_t difference = before_[bin];
      for (std::size_t i = 0; i < points.size(); ++i) {
        difference += points[i].weight;
        if (i + 1 == points.size() || points[i + 1].value != points[i].value)
          largest = std::max(largest, std::abs(difference));
      }
    }
    return largest;
  }

  static constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();
  struct Point {
    float value;
    std::int64_t weight;
  };
  std::int64_t first_ = 0, second_ = 0;
  std::size_t bins_ = 0;
  std::vector<float> values_;
  std::vector<std::uint16_t> bin_of_;
  std::vector<std::uint32_t> counts_[2];
  std::vector<std::int64_t> before_;
  std::vector<std::uint32_t> place_;
  std::vector<std::uint32_t> promising_;
  std::vector<Point> points_;
};

void require_points(std::size_t first, std::size_t second) {
  if (first == 0 || second == 0)
    fail(ErrorCode::bad_input,
         "Kolmogorov-Smirnov statistic of samples of {} and {} points: both must have some", first,
         second);
}

// Points of `rows`.
void project(MatrixView<const float> columns, std::span<const float> direction, RowRange rows,
             std::span<float> out) {
  constexpr std::size_t kPoints = 2048;  // stay in the first-level cache
  for (std::size_t begin = 0; begin < rows.size(); begin += kPoints) {
    const std::size_t count = std::min(kPoints, rows.size() - begin);
    float* sums = out.data() + begin;
    std::fill_n(sums, count, 0.0F);
    for (std::size_t j = 0; j < direction.size(); ++j) {
      const float factor = direction[j];
      const float* column = columns.row(j).data() + rows.begin + begin;
      for (std::size_t i = 0; i < count; ++i) sums[i] += factor * column[i];
    }
  }
}

}  // namespace

double kolmogorov_smirnov(std::span<const float> first, std::span<const float> second) {
  require_points(first.size(), second.size());
  KsSearch search;
  search.resize(first.size(), second.size());
  std::ranges::copy(first, search.values().begin());
  std::ranges::copy(second, search.values().begin() + std::ssize(first));
  return search.statistic();
}

Matrix<float> random_directions(std::size_t count, std::size_t columns, std::uint64_t seed) {
  Matrix<float> directions(count, columns);
  for (std::size_t i = 0; i < count; ++i) {
    RandomStream random(seed, task_id("direction", {i}));
    std::vector<double> normal(columns);
    double squares = 0;
    for (double& value : normal) {
      value = random.normal();
      squares += value * value;
    }
    for (std::size_t j = 0; j < columns; ++j)
      directions(i, j) = static_cast<float>(normal[j] / std::sqrt(squares));
  }
  return directions;
}

DirectionalKs::DirectionalKs(MatrixView<const float> first, MatrixView<const float> second,
                             Team& team) {
  require_points(first.rows(), second.rows());
  OUBLI_ASSERT(first.cols() == second.cols());
  columns_ = {transposed(first, team), transposed(second, team)};
}

std::vector<double> DirectionalKs::along(MatrixView<const float> directions,
                                         const std::array<RowRange, 2>& without) const {
  OUBLI_ASSERT(directions.cols() == columns_[0].rows());
  std::array<std::size_t, 2> kept{};
  for (std::size_t side = 0; side < 2; ++side) {
    OUBLI_ASSERT(without[side].end <= columns_[side].cols());
    kept[side] = columns_[side].cols() - without[side].size();
  }
  require_points(kept[0], kept[1]);
  KsSearch search;
  search.resize(kept[0], kept[1]);
  std::vector<double> result;
  for (std::size_t d = 0; d < directions.rows(); ++d) {
    std::span<float> out = search.values();
    for (std::size_t side = 0; side < 2; ++side) {
      const auto [begin, end] = without[side];
      for (const RowRange rows : {RowRange{0, begin}, RowRange{end, columns_[side].cols()}}) {
        project(columns_[side], directions.row(d), rows, out);
        out = out.subspan(rows.size());
      }
    }
    result.push_back(search.statistic());
  }
  return result;
}

std::vector<double> directional_ks(MatrixView<const float> first, MatrixView<const float> second,
                                   MatrixView<const float> directions, unsigned workers,
                                   const std::stop_token& stop) {
  Team team(workers);
  const DirectionalKs ks(first, second, team);
  constexpr std::size_t kPerTask = 16;
  std::vector<double> result(directions.rows());
  team.run((directions.rows() + kPerTask - 1) / kPerTask,
           [&](std::size_t task, unsigned) {
             const std::size_t begin = task * kPerTask;
             const auto some =
                 directions.middle_rows(begin, std::min(kPerTask, directions.rows() - begin));
             std::ranges::copy(ks.along(some), result.begin() + static_cast<std::ptrdiff_t>(begin));
           },
           stop);
  return result;
}

}  // namespace oubli
