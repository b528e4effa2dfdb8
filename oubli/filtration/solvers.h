#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/array/tensor.h"

namespace oubli {

// All that a filtration needs of A^{-1} (docs/method.md, section 4): for every forgotten class c
// the affine function g_c(x) = u_c . x + beta_c that is 1 on the mean of class c and 0 on the
// others'. x is a vector of logits or of features.
struct DualFunctions {
  Matrix<double> u;  // forgotten x dimensions
  std::vector<double> beta;
  // How well posed the problem was, 1 at best: the reciprocal condition of A (paper), the smallest
  // over the largest |R_ii| (affine), the reciprocal condition of the Gram matrix or, if less, the
  // smallest over the largest pivot of T^T G^-1 T (ridge).
  double conditioning = 0;
};

// The solvers take the class means as rows (classes x dimensions, any float type) and the forgotten
// classes. None throws for ill-posed problems: look at `conditioning`; a singular one gives 0 and
// may give infinities.

// paper: A^T y_c = e_c by LU. Means of logits: square. beta = 0.
[[nodiscard]] DualFunctions solve_paper(const TensorView& logit_means,
                                        std::span<const std::size_t> forget);
// affine: the least-norm u_c, by QR of the centred means; needs classes <= dimensions + 1.
[[nodiscard]] DualFunctions solve_affine(const TensorView& means,
                                         std::span<const std::size_t> forget);
// ridge: 1 and 0 exactly on the forgotten classes, least squares with penalty lambda |u|^2 on the
// others; any number of classes; needs |forget| <= dimensions + 1.
// within_variance: sigma^2 of the data, NaN if unknown; gives lambda.
[[nodiscard]] DualFunctions solve_ridge(const TensorView& means,
                                        std::span<const std::size_t> forget,
                                        double within_variance);

// r_cj = u_c . m_j + beta_c - delta_cj for the chosen classes j, forgotten x chosen.
[[nodiscard]] Matrix<double> residual(const DualFunctions& g, const TensorView& means,
                                      std::span<const std::size_t> forget);

}  // namespace oubli
