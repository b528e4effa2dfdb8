#pragma once

// Training and test points for the tests of this folder.

#include <cmath>
#include <cstdint>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/base/random.h"

namespace oubli::testing {

struct Points {
  Matrix<float> x;
  std::vector<std::uint8_t> y;
};

// Two Gaussians of unit covariance whose means are `separation` apart along the diagonal, equally
// many of each; the best classifier has advantage 2 Phi(separation / 2) - 1.
inline Points two_gaussians(std::size_t rows, std::size_t features, double separation,
                            std::uint64_t seed) {
  Points points{Matrix<float>(rows, features), std::vector<std::uint8_t>(rows)};
  RandomStream random(seed, task_id("points"));
  const double shift = separation / std::sqrt(static_cast<double>(features)) / 2;
  for (std::size_t i = 0; i < rows; ++i) {
    points.y[i] = static_cast<std::uint8_t>(i % 2);
    for (float& value : points.x.row(i))
      value = static_cast<float>(random.normal() + (points.y[i] != 0 ? shift : -shift));
  }
  return points;
}

// Whole numbers in [0, values) with random labels: ties everywhere.
inline Points coarse_points(std::size_t rows, std::size_t features, std::size_t values,
                            std::uint64_t seed) {
  Points points{Matrix<float>(rows, features), std::vector<std::uint8_t>(rows)};
  RandomStream random(seed, task_id("coarse"));
  for (std::size_t i = 0; i < rows; ++i) {
    points.y[i] = static_cast<std::uint8_t>(random.below(2));
    for (float& value : points.x.row(i)) value = static_cast<float>(random.below(values));
  }
  return points;
}

inline double accuracy(const std::vector<std::uint8_t>& answers,
                       const std::vector<std::uint8_t>& labels) {
  std::size_t right = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) right += answers[i] == labels[i] ? 1U : 0U;
  return static_cast<double>(right) / static_cast<double>(labels.size());
}

}  // namespace oubli::testing
