#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/base/workers.h"

namespace oubli {

// The two-sample Kolmogorov-Smirnov statistic, max over t of |F1(t) - F2(t)|: exact, ties included.
// Linear time for ordinary data: a histogram finds the few bins that can hold the maximum, and only
// their points are sorted. Error{bad_input} on an empty sample; values must be finite.
[[nodiscard]] double kolmogorov_smirnov(std::span<const float> first,
                                        std::span<const float> second);

// `count` uniform random unit vectors of dimension `columns`, those of (seed, purpose).
[[nodiscard]] Matrix<float> random_directions(std::size_t count, std::size_t columns,
                                              std::uint64_t seed);

// A run of rows.
struct RowRange {
  std::size_t begin = 0, end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
};

// The statistic of two samples (points x columns), projected on directions.
class DirectionalKs {
 public:
  // Error{bad_input} on an empty sample.
  DirectionalKs(MatrixView<const float> first, MatrixView<const float> second, Team& team);

  // Along each direction (directions x columns), without some rows of either sample. Several
  // threads may ask at once.
  [[nodiscard]] std::vector<double> along(MatrixView<const float> directions,
                                          const std::array<RowRange, 2>& without = {}) const;

 private:
  std::array<Matrix<float>, 2> columns_;  // columns x points: a projection runs along the points
};

// The statistic along each direction, on several threads.
[[nodiscard]] std::vector<double> directional_ks(MatrixView<const float> first,
                                                 MatrixView<const float> second,
                                                 MatrixView<const float> directions,
                                                 unsigned workers = 1,
                                                 const std::stop_token& stop = {});

}  // namespace oubli
