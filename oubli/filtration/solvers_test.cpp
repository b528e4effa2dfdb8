#include "oubli/filtration/solvers.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <Eigen/LU>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>

#include "oubli/base/random.h"
#include "oubli/filtration/eigen.h"

namespace oubli {
namespace {

// Enough for the Gram matrix: k^2 p > 1e8.
constexpr std::size_t kClasses = 480, kFeatures = 500;
const std::vector<std::size_t> kForget{3, 77, 400};

// Class means that lie far from the origin, as those after a Relu do.
Matrix<double> many_means() {
  RandomStream random(5, task_id("means"));
  Matrix<double> means(kClasses, kFeatures);
  for (double& value : means.flat()) value = 4 + random.normal();
  return means;
}

// The least-norm solution by QR, one class at a time, as docs/method.md has it.
DualFunctions by_qr(const Matrix<double>& means) {
  const auto k = eigen_index(means.rows()), p = eigen_index(means.cols());
  const Eigen::VectorXd centre = eigen(means.view()).colwise().mean();
  Eigen::MatrixXd S(p + 1, k);
  S.topRows(p) = eigen(means.view()).transpose().colwise() - centre;
  const double nu = S.topRows(p).norm() / std::sqrt(static_cast<double>(k));
  S.row(p).setConstant(nu);
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(S);
  const Eigen::VectorXd diagonal = qr.matrixQR().diagonal().cwiseAbs();
  DualFunctions g{
      Matrix<double>(kForget.size(), means.cols()), {}, diagonal.minCoeff() / diagonal.maxCoeff()};
  for (std::size_t i = 0; i < kForget.size(); ++i) {
    Eigen::VectorXd uv = Eigen::VectorXd::Zero(p + 1);
    uv.head(k) = qr.matrixQR().topRows(k).triangularView<Eigen::Upper>().transpose().solve(
        Eigen::VectorXd::Unit(k, eigen_index(kForget[i])));
    uv = qr.householderQ() * uv;
    eigen(g.u.view()).row(eigen_index(i)) = uv.head(p);
    g.beta.push_back(nu * uv(p) - uv.head(p).dot(centre));
  }
  return g;
}

double largest_relative_difference(const DualFunctions& a, const DualFunctions& b) {
  const double scale = eigen(b.u.view()).cwiseAbs().maxCoeff();
  double worst = (eigen(a.u.view()) - eigen(b.u.view())).cwiseAbs().maxCoeff() / scale;
  for (std::size_t i = 0; i < a.beta.size(); ++i)
    worst = std::max(worst, std::abs(a.beta[i] - b.beta[i]) / std::abs(b.beta[i]));
  return worst;
}

double largest(const Matrix<double>& r) { return eigen(r.view()).cwiseAbs().maxCoeff(); }

TEST(Solvers, AffineOfManyClassesIsTheLeastNormSolution) {
  const Matrix<double> means = many_means();
  const TensorView view = tensor_view(MatrixView<const double>(means), "means");
  const DualFunctions g = solve_affine(view, kForget), expected = by_qr(means);
  // Both are within eps times the condition number of S (some 1e2) of the exact one.
  EXPECT_GT(g.conditioning, 1e-3);
  EXPECT_LT(largest_relative_difference(g, expected), 1e-11);
  EXPECT_NEAR(g.conditioning / expected.conditioning, 1, 1e-10);
  EXPECT_LT(largest(residual(g, view, kForget)), 1e-12);
}

// A class whose mean is nearly on the line of two others': the Gram matrix alone would give eps /
// 1e-10.
TEST(Solvers, AffineOfNearlyDependentMeansIsAsGood) {
  Matrix<double> means = many_means();
  for (std::size_t d = 0; d < kFeatures; ++d)
    means(9, d) = (means(10, d) + means(11, d)) / 2 + 1e-5 * (means(9, d) - 4);
  const TensorView view = tensor_view(MatrixView<const double>(means), "means");
  const DualFunctions g = solve_affine(view, kForget), expected = by_qr(means);
  EXPECT_LT(g.conditioning, 1e-4);
  EXPECT_LT(largest_relative_difference(g, expected), 1e-9);
  EXPECT_LT(largest(residual(g, view, kForget)), 1e-9);
}

TEST(Solvers, AffineDoesNotDependOnTheNumberOfCores) {
  const Matrix<double> means = many_means();
  const TensorView view = tensor_view(MatrixView<const double>(means), "means");
  const DualFunctions on_all = solve_affine(view, kForget);
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  for (std::size_t core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const DualFunctions on_one = solve_affine(view, kForget);
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(on_all.u, on_one.u);
  EXPECT_EQ(on_all.beta, on_one.beta);
}

// The least of sum_j (g(m_j) - [j = c])^2 + lambda |u|^2 with g(m_i) = [i = c] for the forgotten i,
// by Lagrange's equations in full; with fewer classes than features, and with more.
TEST(Solvers, RidgeIsTheConstrainedLeastSquares) {
  for (const std::size_t k : {std::size_t{12}, std::size_t{50}}) {
    const std::size_t p = 30;
    const std::vector<std::size_t> forget{2, 7};
    RandomStream random(6, task_id("ridge", {k}));
    Matrix<double> means(k, p);
    for (double& value : means.flat()) value = 4 + random.normal();
    const double within = 0.7, lambda = 0.1 * static_cast<double>(k) * within;
    const DualFunctions g =
        solve_ridge(tensor_view(MatrixView<const double>(means), "means"), forget, within);
    // Centred features, as the penalty and the bias see them: unknowns u, v, one multiplier each.
    const Eigen::VectorXd centre = eigen(means.view()).colwise().mean();
    Eigen::MatrixXd S(eigen_index(p + 1), eigen_index(k));
    S.topRows(eigen_index(p)) = eigen(means.view()).transpose().colwise() - centre;
    S.row(eigen_index(p)).setOnes();
    const auto size = eigen_index(p + 1 + forget.size());
    Eigen::MatrixXd all = Eigen::MatrixXd::Zero(size, size);
    all.topLeftCorner(eigen_index(p + 1), eigen_index(p + 1)) = S * S.transpose();
    all.diagonal().head(eigen_index(p)).array() += lambda;
    for (std::size_t i = 0; i < forget.size(); ++i) {
      const auto at = eigen_index(p + 1 + i);
      all.block(0, at, eigen_index(p + 1), 1) = S.col(eigen_index(forget[i]));
      all.block(at, 0, 1, eigen_index(p + 1)) = S.col(eigen_index(forget[i])).transpose();
    }
    for (std::size_t c = 0; c < forget.size(); ++c) {
      Eigen::VectorXd right = Eigen::VectorXd::Zero(size);
      right.head(eigen_index(p + 1)) = S.col(eigen_index(forget[c]));
      right(eigen_index(p + 1 + c)) = 1;
      const Eigen::VectorXd solution = all.fullPivLu().solve(right);
      const Eigen::VectorXd u = solution.head(eigen_index(p));
      const double beta = solution(eigen_index(p)) - u.dot(centre);
      // The system's condition number is below 1e5.
      for (std::size_t f = 0; f < p; ++f)
        EXPECT_NEAR(g.u(c, f), u(eigen_index(f)), 1e-10 * u.cwiseAbs().maxCoeff()) << k;
      EXPECT_NEAR(g.beta[c], beta, 1e-10 * std::abs(beta)) << k;
    }
  }
}

}  // namespace
}  // namespace oubli
