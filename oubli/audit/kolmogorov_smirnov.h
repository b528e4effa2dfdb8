#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "oubli/array/matrix.h"

namespace oubli {

// The two-sample Kolmogorov-Smirnov statistic, max over t of |F1(t) - F2(t)|: exact, ties included.
// Linear time for ordinary data: a histogram finds the few bins that can hold the maximum, and only
// their points are sorted. Error{bad_input} on an empty sample; values must be finite.
[[nodiscard]] double kolmogorov_smirnov(std::span<const float> first,
                                        std::span<const float> second);

// `count` uniform random unit vectors of dimension `columns`, those of (seed, purpose).
[[nodiscard]] Matrix<float> random_directions(std::size_t count, std::size_t columns,
                                              std::uint64_t seed);

// The statistic of the two samples projected on each direction (directions x columns).
[[nodiscard]] std::vector<double> directional_ks(MatrixView<const float> first,
                                                 MatrixView<const float> second,
                                                 MatrixView<const float> directions,
                                                 unsigned workers = 1,
                                                 const std::stop_token& stop = {});

}  // namespace oubli
