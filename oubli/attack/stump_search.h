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
// equal). A feature is sorted once; its order is cut into chunks. For new weights, the chunks are
// summed in the points' own order, so that nothing is gathered from all over memory, and only those
// chunks are looked into that can hold the best split by a convexity bound. Of equally good splits
// the first feature's lowest wins. Points are summed in groups that do not depend on the number of
// workers, so neither does the result; a group stays with its worker, since what one core has
// changed is slow for another to read.
class StumpSearch {
 public:
  // Fewer than 2^31 points, both labels among them.
  StumpSearch(MatrixView<const float> x, std::span<const std::uint8_t> y, Team& team);

  [[nodiscard]] Stump best();
  // Multiplies the weights of each label on either side of the stump; none becomes less than
  // `least`.
  void reweigh(const Stump& stump, const PerLabel& left, const PerLabel& right, double least);

 private:
  static constexpr std::size_t kMostChunks = 1024;
  static constexpr std::size_t kGroups = 4;  // of the points of one label
  using PerChunk = std::array<double, kMostChunks + 1>;

  // What the points of a label's group weigh: in every chunk of every feature.
  using GroupSums = std::vector<PerChunk>;
  // What lies left and right of where every chunk of a feature begins, and of its end. Both sides
  // are sums of what lies there: a difference of two large sums would not be 0 where nothing is.
  struct Sides {
    PerChunk left0, left1, right0, right1;
    PerChunk merit;        // of a split there, whether possible or not
    PerChunk bound;        // no split within the chunk is better
    double highest = 0;    // of the bounds
    std::size_t best = 0;  // the chunk before which a split is best; 0: none is possible
  };
  struct Candidate {
    double merit = -std::numeric_limits<double>::infinity();
    std::size_t feature = 0;
    std::size_t position = 0;  // the split is before this place in the feature's order; 0: none
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
    std::vector<PerLabel> right_of;  // for looking into a chunk
  };

  [[nodiscard]] std::size_t features() const { return values_.rows(); }
  [[nodiscard]] std::size_t chunks() const { return (points_ + chunk_ - 1) / chunk_; }
  // Calls act(group, label, begin, end) for the points of every group, groups of label 0 first.
  void for_each_group(const std::function<void(std::size_t group, std::size_t label,
                                               std::size_t begin, std::size_t end)>& act);
  void sum_group(std::size_t group, std::size_t begin, std::size_t end);
  void sum_sides(std::size_t feature);
  void look_into(std::size_t feature, std::size_t chunk, Worker& worker) const;
  // In whatever order they are found: of equal splits the first feature's lowest.
  [[nodiscard]] static bool is_better(const Candidate& a, const Candidate& b);

  std::size_t points_;
  std::size_t zeros_;  // points of label 0
  std::size_t chunk_;  // places in a chunk
  // Points are numbered anew: those of label 0 first, then those of label 1.
  Matrix<float> values_;  // features x points
  // In ascending order of a feature's values: point << 1 | whether a split before it parts
  // different ones.
  Matrix<std::uint32_t> entries_;   // features x points
  Matrix<std::uint16_t> chunk_of_;  // features x points
  Matrix<double> weights_;          // 1 x points
  std::optional<Change> change_;    // that the weights have not seen yet
  std::array<GroupSums, 2 * kGroups> sums_;
  std::vector<Sides> sides_;  // [feature]
  std::vector<Worker> workers_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> worth_a_look_;  // feature and chunk
  Team& team_;
};

}  // namespace oubli
