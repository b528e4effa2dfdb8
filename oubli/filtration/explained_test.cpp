#include "oubli/filtration/explained.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <utility>

#include "oubli/base/error.h"
#include "oubli/base/random.h"
#include "oubli/filtration/class_means.h"
#include "oubli/filtration/eigen.h"
#include "oubli/filtration/filtration.h"
#include "oubli/filtration/spread.h"

namespace oubli {
namespace {

using Eigen::MatrixXd;

// Samples of `classes` classes in turn; feature d scatters by 1/(1 + d), so that eigenvalues
// differ.
struct Cloud {
  Matrix<double> x;
  std::vector<std::uint32_t> labels;
  ClassMeans means;
  std::vector<std::size_t> retained;
  std::vector<double> centre;

  Cloud(std::size_t samples, std::size_t features, std::size_t classes)
      : x(samples, features), means(classes, features, true), centre(features) {
    RandomStream random(7, task_id("cloud", {samples, features, classes}));
    Matrix<double> middles(classes, features);
    for (double& value : middles.flat()) value = random.normal();
    for (std::size_t i = 0; i < samples; ++i) {
      labels.push_back(static_cast<std::uint32_t>(i % classes));
      for (std::size_t d = 0; d < features; ++d)
        x(i, d) = middles(labels[i], d) + random.normal() / (1 + static_cast<double>(d));
    }
    means.add(x.view(), labels);
    for (std::size_t j = 1; j < classes; ++j) retained.push_back(j);
    for (const std::size_t j : retained)
      for (std::size_t d = 0; d < features; ++d)
        centre[d] += means.means()(j, d) / static_cast<double>(retained.size());
  }
  [[nodiscard]] TensorView tensor() const { return tensor_view<double>(x.view(), "x"); }
};

// P by eigenvectors of S, one by one: sum of s/(s + lambda) q q^T.
MatrixXd brute_force(const MatrixXd& S, double rho) {
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(S);
  const double lambda = rho * S.trace() / static_cast<double>(S.rows());
  const Eigen::VectorXd shares =
      solver.eigenvalues().array().max(0) / (solver.eigenvalues().array().max(0) + lambda);
  return solver.eigenvectors() * shares.asDiagonal() * solver.eigenvectors().transpose();
}

MatrixXd covariance_of(const Cloud& cloud) {
  const auto p = eigen_index(cloud.centre.size());
  const Eigen::Map<const Eigen::VectorXd> centre(cloud.centre.data(), p);
  MatrixXd S = MatrixXd::Zero(p, p);
  double count = 0;
  for (std::size_t i = 0; i < cloud.labels.size(); ++i) {
    if (cloud.labels[i] == 0) continue;
    const Eigen::VectorXd x = eigen(cloud.x.view()).row(eigen_index(i)).transpose() - centre;
    S += x * x.transpose();
    ++count;
  }
  return S / count;
}

// An error dS moves P v by lambda (S + lambda I)^-1 dS (S + lambda I)^-1 v: by |dS| |v| / lambda at
// most. `error` is that of S, in units of its trace.
void expect_explains(const RetainedSpread& spread, const MatrixXd& S, double error) {
  const auto p = static_cast<double>(S.rows());
  Matrix<double> v(2, static_cast<std::size_t>(S.rows()));
  RandomStream random(3, task_id("vectors", {}));
  for (double& value : v.flat()) value = random.normal();
  EXPECT_NEAR(spread.mean_eigenvalue(), S.trace() / p, error * S.trace());
  for (const double rho : {0.01, 0.07, 0.15, 3.0}) {
    const Matrix<double> ours = spread.explain(v, rho);
    const MatrixXd theirs = eigen(std::as_const(v).view()) * brute_force(S, rho);
    EXPECT_LT((eigen(ours.view()) - theirs).norm(), error * p / rho * eigen(v.view()).norm())
        << rho;
  }
}

constexpr double kSingle = 6e-8, kDouble = 1.2e-16;  // unit roundoffs

// Products of single precision: each input and each product is rounded, sums of rounding errors of
// either sign stay below four.
TEST(RetainedSpread, SamplesAgreeWithEigenvectors) {
  for (const std::size_t p : {3U, 20U, 300U}) {
    const Cloud cloud(2000, p, 5);
    const auto spread =
        RetainedSpread::of_samples(cloud.tensor(), cloud.labels, cloud.retained, cloud.centre);
    EXPECT_EQ(spread.rows(), 1600U);
    expect_explains(spread, covariance_of(cloud), 4 * kSingle);
  }
}

TEST(RetainedSpread, FewerSamplesThanFeaturesAgreeWithEigenvectors) {
  const Cloud cloud(60, 200, 4);
  const auto spread =
      RetainedSpread::of_samples(cloud.tensor(), cloud.labels, cloud.retained, cloud.centre);
  expect_explains(spread, covariance_of(cloud), 200 * kDouble);
}

// Between-class part in full, within-class part as a diagonal; more and fewer classes than
// features.
TEST(RetainedSpread, MeansAgreeWithEigenvectors) {
  for (const auto& [p, k] : {std::pair{30U, 6U}, {5U, 40U}}) {
    const Cloud cloud(1200, p, k);
    Matrix<double> within(k, p);
    for (std::size_t i = 0; i < cloud.labels.size(); ++i)
      for (std::size_t d = 0; d < p; ++d)
        within(cloud.labels[i], d) +=
            std::pow(cloud.x(i, d) - cloud.means.means()(cloud.labels[i], d), 2);
    const auto spread = RetainedSpread::of_means(
        tensor_view<double>(cloud.means.means().view(), "m"), cloud.means.counts(),
        tensor_view<float>(cloud.means.feature_scatter().view(), "w"), cloud.retained,
        cloud.centre);
    MatrixXd S = MatrixXd::Zero(p, p);
    double samples = 0;
    for (const std::size_t j : cloud.retained) {
      const auto n = static_cast<double>(cloud.means.counts()[j]);
      samples += n;
      const Eigen::VectorXd m =
          eigen(cloud.means.means().view()).row(eigen_index(j)).transpose() -
          Eigen::Map<const Eigen::VectorXd>(cloud.centre.data(), eigen_index(p));
      S += n * m * m.transpose();
      S.diagonal() += eigen(std::as_const(within).view()).row(eigen_index(j)).transpose();
    }
    // Up to 200 squares are added up in single precision.
    expect_explains(spread, S / samples, 200 * kSingle);
  }
}

// Zero features more than there are samples, and the same lambda: solved for in the space of the
// samples, but the answer is the same.
TEST(RetainedSpread, BothSpacesAgree) {
  const Cloud cloud(80, 40, 4);
  Matrix<double> wide(80, 100);
  for (std::size_t i = 0; i < 80; ++i) std::ranges::copy(cloud.x.row(i), wide.row(i).begin());
  std::vector<double> centre = cloud.centre;
  centre.resize(100);
  const auto primal =
      RetainedSpread::of_samples(cloud.tensor(), cloud.labels, cloud.retained, cloud.centre);
  const auto dual = RetainedSpread::of_samples(tensor_view<double>(std::as_const(wide).view(), "x"),
                                               cloud.labels, cloud.retained, centre);
  Matrix<double> v(1, 40), wide_v(1, 100);
  for (std::size_t d = 0; d < 40; ++d) v(0, d) = wide_v(0, d) = std::cos(static_cast<double>(d));
  const Matrix<double> one = primal.explain(v, 0.1), other = dual.explain(wide_v, 0.25);
  for (std::size_t d = 0; d < 40; ++d) EXPECT_NEAR(one(0, d), other(0, d), 1e-4);
}

// S about a given centre is a mean over samples: parts of the data, each by itself, weighted by
// their numbers of samples, give that of the whole.
TEST(RetainedSpread, TwoHalvesMergedAreTheWhole) {
  const Cloud cloud(2000, 12, 5);
  const auto spread_of = [&](std::size_t first, std::size_t count) {
    const std::span<const std::uint32_t> labels(cloud.labels);
    return RetainedSpread::of_samples(
        tensor_view<double>(cloud.x.view().middle_rows(first, count), "x"),
        labels.subspan(first, count), cloud.retained, cloud.centre);
  };
  // S of P = S (S + lambda I)^-1, P being what is explained of the unit vectors.
  const auto matrix_of = [](const RetainedSpread& spread) {
    const double rho = 1;
    Matrix<double> units(12, 12);
    for (std::size_t d = 0; d < 12; ++d) units(d, d) = 1;
    const Matrix<double> explained = spread.explain(units.view(), rho);
    const MatrixXd P = eigen(explained.view());
    const MatrixXd rest = MatrixXd::Identity(12, 12) - P;
    return MatrixXd(rho * spread.mean_eigenvalue() * rest.ldlt().solve(P));
  };
  const RetainedSpread whole = spread_of(0, 2000), one = spread_of(0, 703),
                       other = spread_of(703, 1297);
  ASSERT_EQ(one.rows() + other.rows(), whole.rows());
  const auto n = static_cast<double>(one.rows()), m = static_cast<double>(other.rows());
  const MatrixXd merged = (n * matrix_of(one) + m * matrix_of(other)) / (n + m);
  // Products in single precision: each is rounded, and four roundings are left of their sums. Going
  // back from P to S multiplies an error by (1 + s/lambda)^2, s/lambda being at most p.
  EXPECT_LT((merged - matrix_of(whole)).norm(),
            13 * 13 * 4 * kSingle * whole.mean_eigenvalue() * 12);
  EXPECT_GT((matrix_of(one) - matrix_of(whole)).norm(), 1e-3 * whole.mean_eigenvalue());
}

// Every so many rows where all would cost too much, and never p x p numbers then.
TEST(RetainedSpread, LimitsAreKept) {
  const Cloud cloud(400, 20, 5);
  const auto rows_with = [&](const SpreadLimits& limits) {
    return RetainedSpread::of_samples(cloud.tensor(), cloud.labels, cloud.retained, cloud.centre,
                                      limits)
        .rows();
  };
  EXPECT_EQ(rows_with({}), 320U);
  EXPECT_EQ(rows_with({.rows = 100, .least = 1}), 100U);
  EXPECT_EQ(rows_with({.products = 200 * 400, .least = 1}), 200U);
  EXPECT_EQ(rows_with({.products = 1, .least = 50}), 50U);
  EXPECT_EQ(rows_with({.products = 1, .least = 15, .numbers = 200}), 10U);
  // A fair share of each class is nearly as good.
  Matrix<double> v(1, 20);
  std::ranges::fill(v.flat(), 1.0);
  const auto explained = [&](const SpreadLimits& limits) {
    return RetainedSpread::of_samples(cloud.tensor(), cloud.labels, cloud.retained, cloud.centre,
                                      limits)
        .explain(v, 0.1);
  };
  const Matrix<double> all = explained({}), some = explained({.rows = 160, .least = 1});
  EXPECT_LT((eigen(all.view()) - eigen(some.view())).norm(), 0.2 * eigen(all.view()).norm());
  const auto of_classes = RetainedSpread::of_means(
      tensor_view<double>(cloud.means.means().view(), "m"), cloud.means.counts(),
      tensor_view<float>(cloud.means.feature_scatter().view(), "w"), cloud.retained, cloud.centre,
      {.products = 1, .least = 2});
  EXPECT_EQ(of_classes.rows(), 2U);
}

// lambda -> 0: all of it where S has full rank; else what lies in its range, and nothing of a unit
// that is dead on retained data.
TEST(RetainedSpread, NothingGoesInTheLimitButWhatRetainedDataNeverUse) {
  Cloud cloud(3000, 6, 4);
  for (std::size_t i = 0; i < cloud.x.rows(); ++i)
    if (cloud.labels[i] != 0) cloud.x(i, 5) = 0;
  cloud.centre[5] = 0;
  const auto spread =
      RetainedSpread::of_samples(cloud.tensor(), cloud.labels, cloud.retained, cloud.centre);
  Matrix<double> v(1, 6);
  std::ranges::fill(v.flat(), 1.0);
  const Matrix<double> kept = spread.explain(v, 1e-6);
  for (std::size_t d = 0; d < 5; ++d) EXPECT_NEAR(kept(0, d), 1, 1e-3);
  EXPECT_NEAR(kept(0, 5), 0, 1e-12);
}

TEST(RetainedSpread, ConstantFeaturesExplainNothing) {
  Matrix<double> x(12, 3);
  std::vector<std::uint32_t> labels;
  for (std::uint32_t i = 0; i < 12; ++i) labels.push_back(i % 3);
  const std::vector<double> centre(3);
  const std::vector<std::size_t> retained{1, 2};
  const auto spread = RetainedSpread::of_samples(tensor_view<double>(std::as_const(x).view(), "x"),
                                                 labels, retained, centre);
  Matrix<double> v(1, 3);
  v(0, 0) = 2;
  EXPECT_EQ(spread.explain(v, 0.1)(0, 0), 0);
}

// A head over a cloud, forgetting class 0.
struct Forgetting {
  Cloud cloud{4000, 12, 6};
  Matrix<double> W{6, 12};
  std::vector<double> b = std::vector<double>(6);
  std::vector<std::size_t> forget{0};

  Forgetting() {
    RandomStream random(11, task_id("head"));
    for (double& w : W.flat()) w = random.normal();
    for (double& value : b) value = random.normal();
  }
  [[nodiscard]] HeadView head() const {
    return {.weights = tensor_view<double>(W.view(), "W"),
            .bias = TensorView{DType::f64, {6}, std::as_bytes(std::span(b)), "b"}};
  }
  [[nodiscard]] Calibration calibration() const {
    return {.means = tensor_view<double>(cloud.means.means().view(), "means"),
            .within_variance = cloud.means.within_variance(),
            .sample = cloud.tensor(),
            .sample_labels = cloud.labels};
  }
  [[nodiscard]] FiltrationPlan plan(Target target) const {
    return plan_filtration(head(), calibration(), forget, target);
  }
};

// docs/method.md, section 8: z_c is, centred, what the head of a ridge regression says of m_c that
// was told to imitate the old logits on retained data only.
TEST(Explained, IsARidgeRegressionOfTheOldLogitsReadAtTheForgottenMean) {
  const Forgetting f;
  const auto p = eigen_index(12);
  const MatrixXd S = covariance_of(f.cloud);
  const double lambda = 0.1 * S.trace() / static_cast<double>(p);
  const Eigen::Map<const Eigen::VectorXd> m_R(f.cloud.centre.data(), p);
  MatrixXd normal = MatrixXd::Zero(p, p), right = MatrixXd::Zero(p, 6);
  double count = 0;
  const auto W = eigen(f.W.view());
  for (std::size_t i = 0; i < f.cloud.labels.size(); ++i) {
    if (f.cloud.labels[i] == 0) continue;
    const Eigen::VectorXd x = eigen(f.cloud.x.view()).row(eigen_index(i)).transpose() - m_R;
    normal += x * x.transpose();
    right += x * (W * x).transpose();  // old logits, less those of m_R
    ++count;
  }
  normal.diagonal().array() += count * lambda;
  const MatrixXd ridge = normal.ldlt().solve(right);  // p x classes
  const Eigen::VectorXd m_c = eigen(f.cloud.means.means().view()).row(0).transpose();
  Eigen::VectorXd expected = ridge.transpose() * (m_c - m_R) + W * m_R;
  for (Eigen::Index j = 0; j < 6; ++j) expected(j) += f.b[static_cast<std::size_t>(j)];

  const Explanation ours = explain_means(f.head(), f.calibration(), split_for_deletion(6, f.forget),
                                         {.method = Method::explained, .explain = 0.1});
  EXPECT_EQ(ours.from, SpreadFrom::samples);
  EXPECT_EQ(ours.too_few, "");
  for (std::size_t j = 0; j < 6; ++j)
    EXPECT_NEAR(ours.logits(0, j), expected(eigen_index(j)), 1e-4 * expected.norm()) << j;

  // The new head sends m_c there, centred, and on to the mean of the retained block.
  const FiltrationPlan plan = f.plan({.method = Method::explained, .explain = 0.1});
  EXPECT_EQ(plan.method, Method::explained);
  const FiltrationPlan normalized = f.plan({.method = Method::normalization});
  const NewHead head = plan.filter.apply(f.head()), other = normalized.filter.apply(f.head());
  const auto at_mean = [&](const NewHead& h) {
    const HeadView view{.weights = h.weights.view("W"), .bias = h.bias->view("b")};
    Matrix<double> mean(1, 12);
    std::ranges::copy(f.cloud.means.means().row(0), mean.row(0).begin());
    return logits_of(view, mean.view());
  };
  const Matrix<double> z = at_mean(head), z_normal = at_mean(other);
  double z_mean = 0, normal_mean = 0, expected_mean = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    z_mean += z(0, i) / 5;
    normal_mean += z_normal(0, i) / 5;
    expected_mean += expected(eigen_index(i + 1)) / 5;
  }
  EXPECT_NEAR(z_mean, normal_mean, 1e-9 * expected.norm());
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_NEAR(z(0, i) - z_mean, expected(eigen_index(i + 1)) - expected_mean,
                1e-4 * expected.norm());
}

// The family's end: rho -> 0 is the paper's method where S has full rank. What goes of v is
// lambda (S + lambda I)^-1 v, at most lambda / s of it with s the smallest eigenvalue.
TEST(Explained, GoesToNormalization) {
  const Forgetting f;
  const FiltrationPlan normalized = f.plan({.method = Method::normalization});
  const MatrixXd S = covariance_of(f.cloud);
  const double smallest = Eigen::SelfAdjointEigenSolver<MatrixXd>(S).eigenvalues().minCoeff();
  const double v = (eigen_row(f.cloud.means.means().row(0)) - eigen_row(f.cloud.centre)).norm();
  double last = 1e300;
  for (const double rho : {1.0, 0.1, 0.01, 0.001}) {
    const FiltrationPlan plan = f.plan({.method = Method::explained, .explain = rho});
    const double away = (eigen(plan.filter.d.view()) - eigen(normalized.filter.d.view())).norm();
    EXPECT_LT(away, last);
    EXPECT_LT(away, rho * S.trace() / 12 / smallest * v * eigen(f.W.view()).norm());
    last = away;
  }
}

// Each forgotten class by the same S, that of what stays.
TEST(Explained, SeveralClassesAtOnce) {
  Forgetting f;
  f.forget = {0, 3};
  f.cloud.retained = {1, 2, 4, 5};
  f.cloud.centre.assign(12, 0);
  const Matrix<double>& means = f.cloud.means.means();
  MatrixXd S = MatrixXd::Zero(12, 12);
  double count = 0;
  for (const std::size_t j : f.cloud.retained)
    for (std::size_t d = 0; d < 12; ++d) f.cloud.centre[d] += means(j, d) / 4;
  for (std::size_t i = 0; i < f.cloud.labels.size(); ++i) {
    if (f.cloud.labels[i] == 0 || f.cloud.labels[i] == 3) continue;
    const Eigen::RowVectorXd x =
        eigen(f.cloud.x.view()).row(eigen_index(i)) - eigen_row(f.cloud.centre);
    S += x.transpose() * x;
    ++count;
  }
  const MatrixXd P = brute_force(S / count, 0.15);
  const Explanation ours =
      explain_means(f.head(), f.calibration(), split_for_deletion(6, f.forget), {.explain = 0.15});
  for (std::size_t n = 0; n < 2; ++n) {
    const Eigen::RowVectorXd v = eigen_row(means.row(f.forget[n])) - eigen_row(f.cloud.centre);
    const Eigen::RowVectorXd feature = v * P + eigen_row(f.cloud.centre);
    const Eigen::RowVectorXd logits = feature * eigen(f.W.view()).transpose() + eigen_row(f.b);
    EXPECT_NEAR(ours.kept[n], (v * P).norm() / v.norm(), 1e-4);
    for (std::size_t j = 0; j < 6; ++j)
      EXPECT_NEAR(ours.logits(n, j), logits(eigen_index(j)), 1e-4 * logits.norm());
  }
  EXPECT_EQ(f.plan({.method = Method::explained}).filter.d.rows(), 2U);
}

// k > p + 1: by ridge's dual functions, exact on the forgotten class, and with a warning.
TEST(Explained, MoreClassesThanFeatures) {
  const Cloud cloud(1200, 5, 40);
  Matrix<double> W(40, 5);
  RandomStream random(13, task_id("wide head"));
  for (double& w : W.flat()) w = random.normal();
  const HeadView head{.weights = tensor_view<double>(std::as_const(W).view(), "W")};
  const std::vector<std::size_t> forget{0};
  const FiltrationPlan plan =
      plan_filtration(head,
                      Calibration{.means = tensor_view<double>(cloud.means.means().view(), "m"),
                                  .within_variance = cloud.means.within_variance(),
                                  .sample = cloud.tensor(),
                                  .sample_labels = cloud.labels},
                      forget, {.method = Method::explained}, Solver::automatic, Centring::never);
  EXPECT_EQ(plan.solver->chosen, Solver::ridge);
  EXPECT_NE(fmt::format("{}", fmt::join(plan.warnings, "\n")).find("disturbs retained classes"),
            std::string::npos);
  const NewHead made = plan.filter.apply(head);
  const HeadView view{.weights = made.weights.view("W"), .bias = made.bias->view("b")};
  const Matrix<double> at_mean = logits_of(view, cloud.means.means().view().middle_rows(0, 1));
  const Matrix<double>& explained = plan.explanation->logits;
  for (std::size_t i = 1; i < 39; ++i)
    EXPECT_NEAR(at_mean(0, i) - at_mean(0, 0), explained(0, i + 1) - explained(0, 1), 1e-8) << i;
}

// A means file has variances of single features: another S, of the same family.
TEST(Explained, ComesFromMeansWhereThatIsAskedForOrAllThereIs) {
  const Forgetting f;
  const ClassSplit split = split_for_deletion(6, f.forget);
  Calibration both = f.calibration();
  both.counts = f.cloud.means.counts();
  both.feature_scatter = tensor_view<float>(f.cloud.means.feature_scatter().view(), "scatter");
  Calibration means_only = both;
  means_only.sample = {};
  means_only.sample_labels = {};
  const auto with = [&](const Calibration& calibration, SpreadFrom from) {
    return explain_means(f.head(), calibration, split, {.explain_from = from});
  };
  EXPECT_EQ(with(both, SpreadFrom::automatic).from, SpreadFrom::samples);
  const Explanation asked = with(both, SpreadFrom::means);
  const Explanation alone = with(means_only, SpreadFrom::automatic);
  EXPECT_EQ(asked.from, SpreadFrom::means);
  EXPECT_EQ(alone.from, SpreadFrom::means);
  EXPECT_EQ(asked.rows, 5U);
  EXPECT_TRUE(std::ranges::equal(asked.logits.flat(), alone.logits.flat()));
  EXPECT_THROW((void)with(means_only, SpreadFrom::samples), Error);
  EXPECT_THROW((void)with(f.calibration(), SpreadFrom::means), Error);
  Calibration neither = f.calibration();
  neither.sample = {};
  neither.sample_labels = {};
  EXPECT_NE(with(neither, SpreadFrom::automatic).too_few, "");
}

TEST(Explained, FallsBackWhereSamplesAreFewAndSaysSo) {
  Forgetting f;
  f.cloud = Cloud(40, 12, 6);
  const FiltrationPlan plan = f.plan({.method = Method::explained});
  EXPECT_EQ(plan.method, Method::normalization);
  ASSERT_FALSE(plan.warnings.empty());
  EXPECT_NE(plan.warnings[0].find("method normalization was used, not explained"),
            std::string::npos);
}

TEST(Explained, RefusesLogitsAndSharesOutOfRange) {
  const Forgetting f;
  const ClassSplit split = split_for_deletion(6, f.forget);
  Calibration logits = f.calibration();
  logits.space = Space::logits;
  EXPECT_THROW((void)explain_means(f.head(), logits, split, {}), Error);
  for (const double rho : {0.0, -1.0, 1e9, std::nan("")})
    EXPECT_THROW((void)explain_means(f.head(), f.calibration(), split, {.explain = rho}), Error)
        << rho;
}

}  // namespace
}  // namespace oubli
