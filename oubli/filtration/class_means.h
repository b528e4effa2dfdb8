#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "oubli/array/matrix.h"

namespace oubli {

// a_j = E[h(X) | Y = j] or m_j = E[f(X) | Y = j], one row per class, gathered from any number of
// batches. Parts gathered by different threads or ranks merge. All in double.
class ClassMeans {
 public:
  // `per_dimension`: gather feature_scatter(), too, which takes half as much memory again.
  ClassMeans(std::size_t classes, std::size_t dimensions, bool per_dimension = false);
  // As they were gathered before: what means(), counts(), scatter() and feature_scatter() gave.
  [[nodiscard]] static ClassMeans restored(Matrix<double> means, std::vector<std::uint64_t> counts,
                                           std::vector<double> scatter,
                                           Matrix<float> feature_scatter = {});

  // rows(i, :) belongs to class labels[i]. Labels must be below classes(), values finite.
  void add(MatrixView<const float> rows, std::span<const std::uint32_t> labels);
  void add(MatrixView<const double> rows, std::span<const std::uint32_t> labels);
  void merge(const ClassMeans& other);

  [[nodiscard]] std::size_t classes() const { return means_.rows(); }
  [[nodiscard]] std::size_t dimensions() const { return means_.cols(); }
  [[nodiscard]] const Matrix<double>& means() const { return means_; }
  [[nodiscard]] std::span<const std::uint64_t> counts() const { return counts_; }
  // Per class: the sum over its samples of the squared distance from the mean.
  [[nodiscard]] std::span<const double> scatter() const { return scatter_; }
  // The same per class and dimension, classes x dimensions; empty unless asked for. In single
  // precision: it is used as a weight, where digits do not count.
  [[nodiscard]] const Matrix<float>& feature_scatter() const { return feature_scatter_; }
  // Standard error of the mean of class j, root-mean-square over the dimensions; NaN below two
  // samples.
  [[nodiscard]] double standard_error(std::size_t j) const;
  // sigma^2: variance within classes per dimension, pooled over classes; NaN if no class has two
  // samples.
  [[nodiscard]] double within_variance() const;

 private:
  template <typename T>
  void add_rows(MatrixView<const T> rows, std::span<const std::uint32_t> labels);

  Matrix<double> means_;
  std::vector<std::uint64_t> counts_;
  std::vector<double> scatter_;  // per class: sum over samples of |x - m_j|^2
  Matrix<float> feature_scatter_;
};

}  // namespace oubli
