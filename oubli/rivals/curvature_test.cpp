#include "oubli/rivals/curvature.h"

#include <gtest/gtest.h>

#include <Eigen/LU>

#include "oubli/rivals/layers.h"
#include "oubli/rivals/test_request.h"

namespace oubli {
namespace {

using Eigen::Index;

Matrix<double> random_matrix(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  RandomStream random(seed, task_id("matrix"));
  Matrix<double> m(rows, cols);
  for (double& x : m.flat()) x = random.normal();
  return m;
}

Matrix<double> second_moments(const Matrix<double>& rows) {
  Matrix<double> m(rows.cols(), rows.cols());
  eigen(m.view()) = eigen(rows.view()).transpose() * eigen(rows.view());
  return m;
}

// Of the quadratic q(D) = <D, G D A> / 2 - <gradient, D> (+ the damping's), D is the minimum:
// Newton's step from 0, here from the Kronecker product as a plain matrix.
TEST(Curvature, TheStepIsNewtonsOnAQuadratic) {
  const Matrix<double> a = second_moments(random_matrix(9, 5, 1));
  const Matrix<double> g = second_moments(random_matrix(7, 3, 2));
  const Matrix<double> gradient = random_matrix(3, 5, 3);
  for (const double damping : {0.0, 3.0}) {
    const Matrix<double> step = kronecker_step(a, g, gradient, damping);
    Eigen::MatrixXd curvature(15, 15);
    for (Index i = 0; i < 15; ++i)
      for (Index j = 0; j < 15; ++j)
        curvature(i, j) = g(static_cast<std::size_t>(i / 5), static_cast<std::size_t>(j / 5)) *
                          a(static_cast<std::size_t>(i % 5), static_cast<std::size_t>(j % 5));
    const double means = eigen(a.view()).trace() / 5 * eigen(g.view()).trace() / 3;
    curvature.diagonal().array() += damping * means;
    const Eigen::VectorXd right = Eigen::Map<const Eigen::VectorXd>(gradient.data(), 15);
    const Eigen::VectorXd wanted = curvature.fullPivLu().solve(right);
    for (std::size_t i = 0; i < 15; ++i)
      EXPECT_NEAR(step.flat()[i], wanted(eigen_index(i)), 1e-9 * wanted.norm());
  }
}

TEST(Curvature, RidgeHeadIsWhereItsObjectiveIsFlat) {
  const Matrix<double> x = random_matrix(40, 4, 4), y = random_matrix(40, 2, 5);
  const double share = 0.2;
  const Matrix<double> head = ridge_head(x, y, share);
  RowMajorMatrix centred = eigen(x.view());
  centred.rowwise() -= centred.colwise().mean().eval();
  const double penalty = share * centred.squaredNorm() / 40 / 4;
  const auto objective = [&](const RowMajorMatrix& h) {
    RowMajorMatrix errors = eigen(x.view()) * h.leftCols(4).transpose() - eigen(y.view());
    errors.rowwise() += h.col(4).transpose();
    return errors.squaredNorm() / 40 + penalty * h.leftCols(4).squaredNorm();
  };
  const RowMajorMatrix found = eigen(head.view());
  for (Index i = 0; i < found.size(); ++i) {
    RowMajorMatrix up = found, down = found;
    up.data()[i] += 1e-4;
    down.data()[i] -= 1e-4;
    // A quadratic: central differences are exact but for rounding.
    EXPECT_NEAR((objective(up) - objective(down)) / 2e-4, 0, 1e-9) << i;
  }
}

double accuracy(const Unlearned& result, const RivalInput& input) {
  const ImageSet retained = without_classes(input.train, input.split.forgotten);
  return nn::score(result.network.logits(retained), retained.labels).accuracy;
}

// What the old head gives the class on its own images, from the features of `network`.
double sure(const nn::Network& network, const RivalInput& input) {
  LayerWeights weights = layer_weights(network);
  weights.back() = layer_weights(input.network).back();
  const ImageSet images = select_images(input.train, images_of(input).forgotten);
  return softmax(to_double(with_weights(network, weights).logits(images))).col(2).mean();
}

class CurvatureStep : public ::testing::TestWithParam<const TestRequest* (*)()> {};
INSTANTIATE_TEST_SUITE_P(Networks, CurvatureStep,
                         ::testing::Values([] { return &test_request(); },
                                           [] { return &convolution_request(); },
                                           [] {
                                             static const TestRequest request{
                                                 .spec = only_convolutions()};
                                             return &request;
                                           }));

// Every image is in the sample here, so that the guard's figures are the training data's.
TEST_P(CurvatureStep, TheGuardKeepsAccuracyAndMakesTheClassUnsure) {
  const RivalInput input = GetParam()()->input();
  const auto results = curvature_step(input);
  ASSERT_EQ(results.size(), 2U);
  const Unlearned naive{without_outputs(input.network, input.split)};
  // Two labels may turn at the rounding of weights to float.
  EXPECT_GE(accuracy(results[1], input), accuracy(naive, input) - 0.003 - 2.0 / 900);
  EXPECT_GT(results[1].gradients, results[0].gradients);
  EXPECT_GT(sure(input.network, input), 0.6);
  EXPECT_GE(sure(results[1].network, input), 0.2);
  EXPECT_LE(sure(results[1].network, input), 0.5);
}

// What `forget --method curvature` does is the rival's guarded step, bit for bit; what it says of
// it is so.
TEST_P(CurvatureStep, TheGuardedStepAloneIsTheRivals) {
  const RivalInput input = GetParam()()->input();
  const GuardedStep alone = guarded_curvature_step(input);
  EXPECT_EQ(alone.network.parameters(), curvature_step(input)[1].network.parameters());
  EXPECT_NEAR(alone.own_probability_before, sure(input.network, input), 1e-6);
  EXPECT_NEAR(alone.own_probability, sure(alone.network, input), 1e-5);
  EXPECT_EQ(alone.retained, 900U);
  EXPECT_EQ(alone.forgotten, 300U);
  // A label may turn at the rounding of weights to float.
  EXPECT_NEAR(alone.accuracy, accuracy({alone.network}, input), 2.0 / 900);
}

// Of several classes together: the guard is about their mean.
TEST(Curvature, SeveralClassesTogether) {
  const RivalInput input = test_request().input({0, 2});
  const GuardedStep step = guarded_curvature_step(input);
  EXPECT_EQ(step.network.classes(), 2U);
  EXPECT_GT(step.own_probability_before, 0.6);
  EXPECT_GE(step.own_probability, kLeastOwnProbability);
  EXPECT_LE(step.own_probability, kMostOwnProbability);
  EXPECT_GE(step.accuracy, step.accuracy_before - kGuardedAccuracyLoss);
}

// The old head is less sure of the class on features after a step against its gradient.
TEST_P(CurvatureStep, MovesTheClassAway) {
  const RivalInput input = GetParam()()->input();
  EXPECT_LT(sure(curvature_step(input)[0].network, input), sure(input.network, input) - 0.05);
}

}  // namespace
}  // namespace oubli
