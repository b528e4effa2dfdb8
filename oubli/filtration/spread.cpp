#include "oubli/filtration/spread.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <utility>

#include "oubli/array/row_blocks.h"
#include "oubli/base/workers.h"
#include "oubli/filtration/eigen.h"

namespace oubli {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using RowMajorFloats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// How many rows are worth their cost.
std::size_t most_rows(std::size_t p, const SpreadLimits& limits) {
  const double affordable = limits.products / static_cast<double>(p) / static_cast<double>(p);
  const auto most =
      std::max(limits.least,
               static_cast<std::size_t>(std::min(affordable, static_cast<double>(limits.rows))));
  return p < most ? most : std::max<std::size_t>(1, std::min(most, limits.numbers / p));
}

std::vector<std::size_t> spread_evenly(std::span<const std::size_t> all, std::size_t most) {
  if (all.size() <= most) return {all.begin(), all.end()};
  std::vector<std::size_t> fewer(most);
  for (std::size_t n = 0; n < most; ++n) fewer[n] = all[n * all.size() / most];
  return fewer;
}

// Some rows minus `centre`, in single precision.
RowMajorFloats centred_floats(const TensorView& features, std::span<const std::size_t> rows,
                              std::span<const double> centre) {
  constexpr std::size_t kRows = 64;
  RowMajorFloats block(eigen_index(rows.size()), eigen_index(centre.size()));
  run_tasks((rows.size() + kRows - 1) / kRows, available_cores(), [&](std::size_t task, unsigned) {
    const std::size_t first = task * kRows;
    const auto some = rows.subspan(first, std::min(kRows, rows.size() - first));
    const Matrix<double> values = pick_rows(features, some);
    block.middleRows(eigen_index(first), eigen_index(some.size())) =
        (eigen(values.view()).rowwise() - eigen_row(centre)).cast<float>();
  });
  return block;
}

// gram += rows^T rows, lower triangle: by tiles, so that the sums do not depend on the number of
// cores. Products of single precision, added up in double: S is a weight, not a result.
void add_products(const RowMajorFloats& rows, MatrixView<double> gram) {
  constexpr Index kTile = 256;
  const Index p = rows.cols();
  std::vector<std::pair<Index, Index>> tiles;
  for (Index i = 0; i < p; i += kTile)
    for (Index j = 0; j <= i; j += kTile) tiles.emplace_back(i, j);
  auto sum = eigen(gram);
  run_tasks(tiles.size(), available_cores(), [&](std::size_t task, unsigned) {
    const auto [i, j] = tiles[task];
    const Index height = std::min(kTile, p - i), width = std::min(kTile, p - j);
    const RowMajorFloats product =
        rows.middleCols(i, height).transpose() * rows.middleCols(j, width);
    sum.block(i, j, height, width) += product.cast<double>();
  });
}

// system^-1 right, by Cholesky; `system` (lower triangle) is overwritten.
MatrixXd solve_in_place(RowMajorMatrix& system, const MatrixXd& right) {
  const Eigen::LLT<Eigen::Ref<RowMajorMatrix>> llt(system);
  if (llt.info() != Eigen::Success)
    fail(ErrorCode::unfilterable,
         "method explained: the spread of the retained classes is too uneven for so small a "
         "share; ask for a larger --explain");
  return llt.solve(right);
}

}  // namespace

RetainedSpread RetainedSpread::of_samples(const TensorView& features,
                                          std::span<const std::uint32_t> labels,
                                          std::span<const std::size_t> retained,
                                          std::span<const double> centre,
                                          const SpreadLimits& limits) {
  const std::size_t p = centre.size();
  OUBLI_ASSERT(features.rank() == 2 && features.shape[0] == labels.size() &&
               features.shape[1] == p);
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (std::ranges::binary_search(retained, labels[i])) chosen.push_back(i);
  if (const std::size_t most = most_rows(p, limits); chosen.size() > most) {
    // Of every class its share, however the classes follow each other.
    std::ranges::stable_sort(chosen, {}, [&](std::size_t i) { return labels[i]; });
    chosen = spread_evenly(chosen, most);
    std::ranges::sort(chosen);
  }
  RetainedSpread spread(p);
  spread.count_ = chosen.size();
  const auto samples = static_cast<double>(std::max<std::size_t>(1, chosen.size()));
  if (chosen.size() < p) {
    spread.rows_ = pick_rows(features, chosen);
    auto rows = eigen(spread.rows_.view());
    rows.rowwise() -= eigen_row(centre);
    rows /= std::sqrt(samples);
    spread.trace_ = rows.squaredNorm();
    return spread;
  }
  spread.gram_ = Matrix<double>(p, p);
  const std::size_t block_rows = std::max<std::size_t>(256, kRowBlockElements * 16 / p);
  for (std::size_t first = 0; first < chosen.size(); first += block_rows) {
    const auto some = std::span(chosen).subspan(first, std::min(block_rows, chosen.size() - first));
    add_products(centred_floats(features, some, centre), spread.gram_.view());
  }
  eigen(spread.gram_.view()) /= samples;
  spread.trace_ = eigen(spread.gram_.view()).trace();
  return spread;
}

RetainedSpread RetainedSpread::of_means(const TensorView& means,
                                        std::span<const std::uint64_t> counts,
                                        const TensorView& within,
                                        std::span<const std::size_t> retained,
                                        std::span<const double> centre,
                                        const SpreadLimits& limits) {
  const std::size_t p = centre.size();
  OUBLI_ASSERT(means.rank() == 2 && means.shape[1] == p && within.shape == means.shape &&
               means.shape[0] == counts.size());
  const auto samples_of = [&](std::span<const std::size_t> classes) {
    double samples = 0;
    for (const std::size_t j : classes) samples += static_cast<double>(counts[j]);
    return samples;
  };
  RetainedSpread spread(p);
  const std::size_t block_rows = std::max<std::size_t>(1, kRowBlockElements / p);
  auto diagonal = Eigen::Map<Eigen::RowVectorXd>(spread.diagonal_.data(), eigen_index(p));
  for (std::size_t first = 0; first < retained.size(); first += block_rows) {
    const Matrix<double> squares =
        pick_rows(within, retained.subspan(first, std::min(block_rows, retained.size() - first)));
    diagonal += eigen(squares.view()).colwise().sum();
  }
  diagonal /= samples_of(retained);

  const std::vector<std::size_t> chosen = spread_evenly(retained, most_rows(p, limits));
  const double samples = samples_of(chosen);
  spread.count_ = chosen.size();
  const bool form = chosen.size() >= p;
  if (form)
    spread.gram_ = Matrix<double>(p, p);
  else
    spread.rows_ = Matrix<double>(chosen.size(), p);
  for (std::size_t first = 0; first < chosen.size(); first += block_rows) {
    const auto some = std::span(chosen).subspan(first, std::min(block_rows, chosen.size() - first));
    Matrix<double> block = pick_rows(means, some);
    auto rows = eigen(block.view());
    rows.rowwise() -= eigen_row(centre);
    for (std::size_t i = 0; i < some.size(); ++i)
      rows.row(eigen_index(i)) *= std::sqrt(static_cast<double>(counts[some[i]]) / samples);
    spread.trace_ += rows.squaredNorm();
    if (form)
      eigen(spread.gram_.view()).triangularView<Eigen::Lower>() += rows.transpose() * rows;
    else
      eigen(spread.rows_.view()).middleRows(eigen_index(first), rows.rows()) = rows;
  }
  spread.trace_ += diagonal.sum();
  return spread;
}

double RetainedSpread::mean_eigenvalue() const {
  return trace_ / static_cast<double>(diagonal_.size());
}

// P v = v - lambda (S + lambda I)^-1 v. With E = diagonal + lambda and X the rows,
// (E + X^T X)^-1 = E^-1 - E^-1 X^T (I + X E^-1 X^T)^-1 X E^-1, n x n where n < p.
Matrix<double> RetainedSpread::explain(MatrixView<const double> differences, double rho) const {
  OUBLI_ASSERT(rho > 0 && differences.cols() == diagonal_.size());
  const double lambda = rho * mean_eigenvalue();
  Matrix<double> result(differences.rows(), differences.cols());
  if (!(lambda > 0)) return result;  // S = 0: nothing is explained
  const Eigen::VectorXd E =
      Eigen::Map<const Eigen::VectorXd>(diagonal_.data(), eigen_index(diagonal_.size())).array() +
      lambda;
  const MatrixXd v = eigen(differences).transpose();  // p x n
  MatrixXd solved;
  if (!gram_.empty()) {
    RowMajorMatrix system = eigen(gram_.view());
    system.diagonal() += E;
    solved = solve_in_place(system, v);
  } else {
    const auto X = eigen(rows_.view());
    const RowMajorMatrix X_E = X * E.cwiseInverse().asDiagonal();
    RowMajorMatrix inner = X_E * X.transpose();
    inner.diagonal().array() += 1;
    solved = E.cwiseInverse().asDiagonal() * v;
    solved -= X_E.transpose() * solve_in_place(inner, X_E * v);
  }
  eigen(result.view()) = (v - lambda * solved).transpose();
  return result;
}

}  // namespace oubli
