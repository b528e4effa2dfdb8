#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/attack/binning.h"
#include "oubli/base/workers.h"

namespace oubli {

// Weights of the two labels, or factors for them.
using PerLabel = std::array<double, 2>;

// Points whose feature is at most the threshold are on the left.
struct Stump {
  std::size_t feature = 0;
  float threshold = std::numeric_limits<float>::infinity();  // all left: no feature can be split
  PerLabel left{}, right{};                                  // what the points there weigh
};

// Finds the decision stump of least Gini impurity for the same points again and again, while their
// weights, equal to begin with, change from stump to stump.
//
// Splits are exact: every midpoint between two neighbouring values (within 1e-7 they count as
// equal). A feature's values are cut into chunks, ascending and of about the same number of points.
// For new weights, the chunks are summed in the points' own order, so that nothing is gathered from
// all over memory, and only those chunks are looked into that can hold the best split by a
// convexity bound; a chunk is sorted when it is looked into for the first time, and few are. Of
// equally good splits the first feature's lowest wins. Points are summed in groups that do not
// depend on the number of workers, so neither does the result; a group stays with its worker, since
// what one core has changed is slow for another to read.
class StumpSearch {
 public:
  // Fewer than 2^31 points, both labels among them.
  StumpSearch(MatrixView<const float> x, std::span<const std::uint8_t> y, Team& team);

  [[nodiscard]] Stump best();
  // Multiplies the weights of each label on either side of the stump; none becomes less than
  // `least`.
  void reweigh(const Stump& stump, const PerLabel& left, const PerLabel& right, double least);

 private:
  static constexpr std::size_t kMostChunks = Bins::kMostBins;
  static constexpr std::size_t kGroups = 4;  // of the points of one label
  using PerChunk = std::vector<double>;      // few points have few chunks

  // What the points of a label's group weigh: features x chunks.
  using GroupSums = Matrix<double>;
  // What lies left and right of where every chunk of a feature begins, and of its end. Both sides
  // are sums of what lies there: a difference of two large sums would not be 0 where nothing is.
  struct Sides {
    PerChunk left0, left1, right0, right1;
    PerChunk merit;        // of a split there, whether possible or not
    PerChunk bound;        // no split within the chunk is better
    double highest = 0;    // of the bounds
    std::size_t best = 0;  // the chunk before which a split is best; 0: there is but one
  };
  // The points of a feature's chunks, one chunk after the other.
  struct Order {
    std::size_t chunks = 0;
    std::vector<std::uint32_t> begin;  // of each chunk, and the end of the last
    std::span<std::uint32_t> points;   // by number within a chunk
    // By value, of the chunks that were looked into: point << 1 | whether a split before it parts
    // different values.
    std::vector<std::vector<std::uint32_t>> sorted;

    [[nodiscard]] std::span<const std::uint32_t> chunk(std::size_t c) const {
      return points.subspan(begin[c], begin[c + 1] - begin[c]);
    }
  };
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  struct Candidate {
    double merit = -std::numeric_limits<double>::infinity();
    std::size_t feature = 0, chunk = 0;
    std::size_t place = kNone;  // in the chunk, of the first point on the right
    PerLabel left{}, right{};
  };
  struct Change {
    std::size_t feature;
    float threshold;
    PerLabel left, right;
    double least;
  };
  struct Worker {
    Candidate best;
    // For looking into a chunk.
    std::vector<float> values, ascending;
    std::vector<std::uint32_t> places;
    std::vector<PerLabel> right_of;
  };

  [[nodiscard]] std::size_t features() const { return values_.rows(); }
  [[nodiscard]] std::size_t chunks(std::size_t feature) const { return orders_[feature].chunks; }
  // Calls act(group, label, begin, end) for the points of every group, groups of label 0 first.
  void for_each_group(const std::function<void(std::size_t group, std::size_t label,
                                               std::size_t begin, std::size_t end)>& act);
  void fill_chunks();
  [[nodiscard]] float highest_in(std::size_t feature, std::size_t chunk) const;
  void sort_chunk(std::size_t feature, std::size_t chunk, Worker& worker);
  void sum_group(std::size_t group, std::size_t begin, std::size_t end);
  void sum_sides(std::size_t feature);
  void look_into(std::size_t feature, std::size_t chunk, Worker& worker);
  // In whatever order they are found: of equal splits the first feature's lowest.
  [[nodiscard]] static bool is_better(const Candidate& a, const Candidate& b);

  std::size_t points_;
  std::size_t zeros_;  // points of label 0
  // Points are numbered anew: those of label 0 first, then those of label 1.
  Matrix<float> values_;            // features x points
  Matrix<std::uint16_t> chunk_of_;  // features x points
  Bins bins_;                       // chunks are its bins
  std::size_t most_chunks_ = 1;     // of any feature
  std::vector<Order> orders_;       // [feature]
  Matrix<std::uint32_t> points_by_chunk_;
  Matrix<double> weights_;        // 1 x points
  std::optional<Change> change_;  // that the weights have not seen yet
  std::array<GroupSums, 2 * kGroups> sums_;
  std::vector<Sides> sides_;  // [feature]
  std::vector<Worker> workers_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> worth_a_look_;  // feature and chunk
  Team& team_;
};

}  // namespace oubli
