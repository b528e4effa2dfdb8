#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/array/tensor.h"

namespace oubli {

// What S may cost. Where there are more rows than that, every so many are taken.
struct SpreadLimits {
  std::size_t rows = 65536;
  double products = 2e10;                      // of numbers, for p x p sums: below a second
  std::size_t least = 4096;                    // rows, whatever the products
  std::size_t numbers = std::size_t{1} << 25;  // of rows that are kept
};

// The covariance S of the features of retained classes about m_R, the mean of their class means,
// and what it explains of a vector [docs/method.md, section 8]:
//
//     P_lambda v = S (S + lambda I)^-1 v,   lambda = rho tr(S) / p.
//
// Directions that retained classes use stay; those they hardly use go. S is never inverted, and is
// formed only where it is no larger than the rows it is made of, so that memory is bounded by
// `numbers` or, where p < `least`, by p^2.
class RetainedSpread {
 public:
  // From data: rows of `features` (samples x p) whose class is retained. `retained` ascending;
  // `centre` is m_R. Error{bad_input} names a value that is not finite.
  [[nodiscard]] static RetainedSpread of_samples(const TensorView& features,
                                                 std::span<const std::uint32_t> labels,
                                                 std::span<const std::size_t> retained,
                                                 std::span<const double> centre,
                                                 const SpreadLimits& limits = {});
  // From what a means file keeps: between classes in full, within classes the variances of single
  // features. `within`: per class and feature, the sum of squared distances from the class's mean.
  [[nodiscard]] static RetainedSpread of_means(const TensorView& means,
                                               std::span<const std::uint64_t> counts,
                                               const TensorView& within,
                                               std::span<const std::size_t> retained,
                                               std::span<const double> centre,
                                               const SpreadLimits& limits = {});

  // The rows S was made of: samples, or classes.
  [[nodiscard]] std::size_t rows() const { return count_; }
  // tr(S) / p
  [[nodiscard]] double mean_eigenvalue() const;
  // P_lambda v for every row v of `differences` (n x p). rho > 0. Error{unfilterable} if S is too
  // uneven for so small a rho.
  [[nodiscard]] Matrix<double> explain(MatrixView<const double> differences, double rho) const;

 private:
  explicit RetainedSpread(std::size_t features) : diagonal_(features) {}

  Matrix<double> gram_;           // p x p, lower triangle, or empty
  Matrix<double> rows_;           // n x p with n < p, or empty: S = rows^T rows + diagonal
  std::vector<double> diagonal_;  // p
  std::size_t count_ = 0;
  double trace_ = 0;
};

}  // namespace oubli
