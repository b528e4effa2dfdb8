#pragma once

// Eigen's view of our matrices. For .cpp files only: our headers do not show Eigen.

#include <Eigen/Core>
#include <cstddef>
#include <span>

#include "oubli/array/matrix.h"

namespace oubli {

using RowMajorMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

[[nodiscard]] inline Eigen::Index eigen_index(std::size_t n) {
  return static_cast<Eigen::Index>(n);
}
[[nodiscard]] inline Eigen::Map<const RowMajorMatrix> eigen(MatrixView<const double> m) {
  return {m.data(), eigen_index(m.rows()), eigen_index(m.cols())};
}
[[nodiscard]] inline Eigen::Map<RowMajorMatrix> eigen(MatrixView<double> m) {
  return {m.data(), eigen_index(m.rows()), eigen_index(m.cols())};
}
[[nodiscard]] inline Eigen::Map<const Eigen::RowVectorXd> eigen_row(std::span<const double> row) {
  return {row.data(), eigen_index(row.size())};
}

}  // namespace oubli
