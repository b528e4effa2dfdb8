#include "oubli/filtration/solvers.h"

#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "oubli/array/row_blocks.h"
#include "oubli/base/workers.h"
#include "oubli/filtration/eigen.h"

namespace oubli {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Columns e_c for the forgotten classes.
MatrixXd unit_columns(std::size_t classes, std::span<const std::size_t> forget) {
  MatrixXd columns = MatrixXd::Zero(eigen_index(classes), eigen_index(forget.size()));
  for (std::size_t i = 0; i < forget.size(); ++i)
    columns(eigen_index(forget[i]), eigen_index(i)) = 1;
  return columns;
}

// The unweighted mean of the class means.
VectorXd centre_of(const TensorView& means) {
  VectorXd sum = VectorXd::Zero(eigen_index(means.shape[1]));
  for_each_row_block(means, [&](std::size_t, MatrixView<const double> block) {
    sum += eigen(block).colwise().sum().transpose();
  });
  return sum / static_cast<double>(means.shape[0]);
}

DualFunctions to_duals(const MatrixXd& u_columns, VectorXd beta, double conditioning) {
  DualFunctions g{Matrix<double>(static_cast<std::size_t>(u_columns.cols()),
                                 static_cast<std::size_t>(u_columns.rows())),
                  {beta.begin(), beta.end()},
                  conditioning};
  eigen(g.u.view()) = u_columns.transpose();
  return g;
}

// Rows [first, first + count) of the means, minus the centre.
RowMajorMatrix centred_rows(const TensorView& means, const VectorXd& centre, Index first,
                            Index count) {
  const std::size_t row_bytes = means.shape[1] * size_of(means.dtype);
  RowMajorMatrix rows(count, eigen_index(means.shape[1]));
  decode(means.dtype,
         means.bytes.subspan(static_cast<std::size_t>(first) * row_bytes,
                             static_cast<std::size_t>(count) * row_bytes),
         std::span(rows.data(), static_cast<std::size_t>(rows.size())));
  rows.rowwise() -= centre.transpose();
  return rows;
}

// C C^T for the centred means C (k x p), lower triangle: by tiles that do not depend on the number
// of cores, so the result does not.
MatrixXd gram_of(const TensorView& means, const VectorXd& centre) {
  const Index k = eigen_index(means.shape[0]);
  const Index tile =
      std::clamp<Index>((Index{1} << 19) / std::max<Index>(1, centre.size()), 16, 256);
  std::vector<std::pair<Index, Index>> tiles;
  for (Index i = 0; i < k; i += tile)
    for (Index j = 0; j <= i; j += tile) tiles.emplace_back(i, j);
  MatrixXd gram(k, k);
  run_tasks(tiles.size(), available_cores(), [&](std::size_t task, unsigned) {
    const auto [i, j] = tiles[task];
    const RowMajorMatrix rows = centred_rows(means, centre, i, std::min(tile, k - i));
    auto block = gram.block(i, j, rows.rows(), std::min(tile, k - j));
    if (i == j)
      block.noalias() = rows * rows.transpose();
    else
      block.noalias() = rows * centred_rows(means, centre, j, tile).transpose();
  });
  return gram;
}

// solve_affine() by way of the Gram matrix G = S^T S of S = [M_c; nu 1^T]: half the steps of a QR
// factorisation, nearly all of them in products that run on all cores. Its Cholesky factor is R,
// the signs of rows apart, so that `conditioning` is the same figure. G has the square of S's
// condition number; a step of refinement, with the residual of S itself, makes up for that while
// half the digits are right without it. None if they are not.
std::optional<DualFunctions> solve_affine_by_gram(const TensorView& means,
                                                  std::span<const std::size_t> forget,
                                                  const VectorXd& centre) {
  constexpr double kLeastCondition = 1e-8;  // of G: 1e-4 of S
  MatrixXd gram = gram_of(means, centre);
  const double nu = std::sqrt(gram.trace() / static_cast<double>(gram.rows()));
  gram.array() += nu * nu;
  const Eigen::LLT<Eigen::Ref<MatrixXd>> llt(gram);  // in place
  if (llt.info() != Eigen::Success || !(llt.rcond() >= kLeastCondition)) return std::nullopt;
  const auto diagonal = gram.diagonal();
  const double conditioning = diagonal.minCoeff() / diagonal.maxCoeff();

  MatrixXd u = MatrixXd::Zero(centre.size(), eigen_index(forget.size()));
  Eigen::RowVectorXd v = Eigen::RowVectorXd::Zero(u.cols());
  MatrixXd rest = unit_columns(means.shape[0], forget);  // e_c - S^T (u; v)
  const auto for_each_centred_block = [&](const auto& visit) {
    RowMajorMatrix centred;
    for_each_row_block(means, [&](std::size_t first, MatrixView<const double> block) {
      centred = eigen(block).rowwise() - centre.transpose();
      visit(eigen_index(first), centred);
    });
  };
  const auto improve = [&] {
    const MatrixXd w = llt.solve(rest);
    for_each_centred_block([&](Index first, const RowMajorMatrix& rows) {
      u.noalias() += rows.transpose() * w.middleRows(first, rows.rows());
    });
    v += nu * w.colwise().sum();
  };
  improve();
  for_each_centred_block([&](Index first, const RowMajorMatrix& rows) {
    auto its_rest = rest.middleRows(first, rows.rows());
    its_rest.noalias() -= rows * u;
    its_rest.rowwise() -= nu * v;
  });
  improve();
  return to_duals(u, nu * v.transpose() - u.transpose() * centre, conditioning);
}

}  // namespace

DualFunctions solve_paper(const TensorView& logit_means, std::span<const std::size_t> forget) {
  const auto k = eigen_index(logit_means.shape[0]);
  OUBLI_ASSERT(logit_means.shape[0] == logit_means.shape[1]);
  // Row j of the means is a_j, so the matrix read is A^T itself.
  MatrixXd A_t(k, k);
  for_each_row_block(logit_means, [&](std::size_t first, MatrixView<const double> block) {
    A_t.middleRows(eigen_index(first), eigen_index(block.rows())) = eigen(block);
  });
  const Eigen::PartialPivLU<Eigen::Ref<MatrixXd>> lu(A_t);  // in place
  const bool singular = lu.matrixLU().diagonal().cwiseAbs().minCoeff() == 0;
  return to_duals(lu.solve(unit_columns(logit_means.shape[0], forget)),
                  VectorXd::Zero(eigen_index(forget.size())), singular ? 0 : lu.rcond());
}

DualFunctions solve_affine(const TensorView& means, std::span<const std::size_t> forget) {
  const auto k = eigen_index(means.shape[0]), p = eigen_index(means.shape[1]);
  OUBLI_ASSERT(k <= p + 1);
  const VectorXd centre = centre_of(means);
  // Some hundredths of a second; below, QR is as good.
  if (static_cast<double>(k) * static_cast<double>(k) * static_cast<double>(p) > 1e8)
    if (auto duals = solve_affine_by_gram(means, forget, centre)) return *std::move(duals);
  // [M_c; nu 1^T] with nu the root-mean-square column norm: neither part can drown the other.
  MatrixXd stacked(p + 1, k);
  for_each_row_block(means, [&](std::size_t first, MatrixView<const double> block) {
    stacked.block(0, eigen_index(first), p, eigen_index(block.rows())) =
        eigen(block).transpose().colwise() - centre;
  });
  const double nu = stacked.topRows(p).norm() / std::sqrt(static_cast<double>(k));
  stacked.row(p).setConstant(nu);
  const Eigen::HouseholderQR<Eigen::Ref<MatrixXd>> qr(stacked);  // in place
  const auto diagonal = qr.matrixQR().diagonal().cwiseAbs();
  const double largest = diagonal.maxCoeff();
  const double conditioning = largest > 0 ? diagonal.minCoeff() / largest : 0;

  // (u; v) = Q R^{-T} e_c is the least-norm solution of [M_c; nu 1^T]^T (u; v) = e_c.
  MatrixXd uv = MatrixXd::Zero(p + 1, eigen_index(forget.size()));
  uv.topRows(k) = qr.matrixQR().topRows(k).triangularView<Eigen::Upper>().transpose().solve(
      unit_columns(means.shape[0], forget));
  uv.applyOnTheLeft(qr.householderQ());
  const MatrixXd u = uv.topRows(p);
  return to_duals(u, nu * uv.row(p).transpose() - u.transpose() * centre, conditioning);
}

namespace {

// The inverse of M_c M_c^T + lambda I (p x p, for p features) applied to columns of the centred
// means M_c themselves.
struct RidgeSolution {
  MatrixXd columns;  // p x forgotten; empty if the matrix is singular
  double rcond = 0;  // of what was factorised
};

double ridge_of(double trace, std::size_t classes, Index features, double within_variance) {
  return std::isfinite(within_variance) && within_variance > 0
             ? 0.1 * static_cast<double>(classes) * within_variance
             : 1e-3 * trace / static_cast<double>(features);
}

// By the p x p matrix itself; its lower triangle only.
RidgeSolution ridge_by_features(const TensorView& means, const VectorXd& centre,
                                const MatrixXd& columns, double within_variance) {
  const Index p = centre.size();
  MatrixXd gram = MatrixXd::Zero(p, p);
  for_each_row_block(means, [&](std::size_t, MatrixView<const double> block) {
    const MatrixXd centred = eigen(block).transpose().colwise() - centre;
    gram.selfadjointView<Eigen::Lower>().rankUpdate(centred);
  });
  gram.diagonal().array() += ridge_of(gram.trace(), means.shape[0], p, within_variance);
  const Eigen::LLT<Eigen::Ref<MatrixXd>> llt(gram);  // in place
  if (llt.info() != Eigen::Success) return {};
  return {llt.solve(columns), llt.rcond()};
}

// (M M^T + l I)^-1 M = M (M^T M + l I)^-1: k x k, where there are fewer classes than features.
RidgeSolution ridge_by_classes(const TensorView& means, const VectorXd& centre,
                               std::span<const std::size_t> forget, double within_variance) {
  MatrixXd gram = gram_of(means, centre);
  gram.diagonal().array() += ridge_of(gram.trace(), means.shape[0], centre.size(), within_variance);
  const Eigen::LLT<Eigen::Ref<MatrixXd>> llt(gram);  // in place
  if (llt.info() != Eigen::Success) return {};
  const MatrixXd weights = llt.solve(unit_columns(means.shape[0], forget));
  MatrixXd columns = MatrixXd::Zero(centre.size(), weights.cols());
  for_each_row_block(means, [&](std::size_t first, MatrixView<const double> block) {
    const RowMajorMatrix centred = eigen(block).rowwise() - centre.transpose();
    columns.noalias() +=
        centred.transpose() * weights.middleRows(eigen_index(first), centred.rows());
  });
  return {std::move(columns), llt.rcond()};
}

}  // namespace

DualFunctions solve_ridge(const TensorView& means, std::span<const std::size_t> forget,
                          double within_variance) {
  const auto p = eigen_index(means.shape[1]), count = eigen_index(forget.size());
  const auto k = static_cast<double>(means.shape[0]);
  OUBLI_ASSERT(count <= p + 1);
  const VectorXd centre = centre_of(means);
  // G = diag(M_c M_c^T + lambda I, k), T = [M_c e_C; 1^T].
  MatrixXd T(p + 1, count);
  T.row(p).setOnes();
  for (Index i = 0; i < count; ++i)
    T.col(i).head(p) =
        centred_rows(means, centre, eigen_index(forget[static_cast<std::size_t>(i)]), 1)
            .transpose();
  const RidgeSolution inverse =
      means.shape[0] < means.shape[1]
          ? ridge_by_classes(means, centre, forget, within_variance)
          : ridge_by_features(means, centre, T.topRows(p), within_variance);
  if (inverse.columns.size() == 0)
    return to_duals(MatrixXd::Zero(p, count), VectorXd::Zero(count), 0);

  // X = G^{-1} T (T^T G^{-1} T)^{-1}: T^T X = I, that is exact on C.
  MatrixXd X(p + 1, count);
  X.topRows(p) = inverse.columns;
  X.row(p) = T.row(p) / k;
  const MatrixXd inner = T.transpose() * X;
  const Eigen::LDLT<MatrixXd> ldlt(inner);  // pivots fall: 0 where forgotten means are dependent
  X = ldlt.solve(X.transpose()).transpose().eval();
  const MatrixXd u = X.topRows(p);
  const double forgotten_part = ldlt.vectorD().minCoeff() / ldlt.vectorD().maxCoeff();
  return to_duals(u, X.row(p).transpose() - u.transpose() * centre,
                  std::min(inverse.rcond, forgotten_part));
}

Matrix<double> residual(const DualFunctions& g, const TensorView& means,
                        std::span<const std::size_t> forget) {
  Matrix<double> r(forget.size(), means.shape[0]);
  for_each_row_block(means, [&](std::size_t first, MatrixView<const double> block) {
    eigen(r.view()).middleCols(eigen_index(first), eigen_index(block.rows())).noalias() =
        eigen(g.u.view()) * eigen(block).transpose();
  });
  for (std::size_t i = 0; i < forget.size(); ++i) {
    for (double& value : r.row(i)) value += g.beta[i];
    r(i, forget[i]) -= 1;
  }
  return r;
}

}  // namespace oubli
