#include "oubli/rivals/projection.h"

#include <gtest/gtest.h>

#include <Eigen/QR>
#include <cmath>

#include "oubli/filtration/eigen.h"
#include "oubli/rivals/test_request.h"

namespace oubli {
namespace {

// The share of the variance of z that a linear probe on x explains.
double explained_by_probe(const RowMajorMatrix& x, const Eigen::VectorXd& z) {
  RowMajorMatrix with_one(x.rows(), x.cols() + 1);
  with_one << x, Eigen::VectorXd::Ones(x.rows());
  const Eigen::VectorXd fitted =
      with_one * with_one.completeOrthogonalDecomposition().solve(z).eval();
  const double all = (z.array() - z.mean()).square().sum();
  return 1 - (z - fitted).squaredNorm() / all;
}

// Features of two concepts, correlated, one of them never used.
struct Concepts {
  Matrix<double> x{300, 6}, z{300, 2};
  Concepts() {
    RandomStream random(11, task_id("concepts"));
    for (std::size_t i = 0; i < 300; ++i) {
      z(i, 0) = i % 3 == 0 ? 1 : 0;
      z(i, 1) = i % 5 == 0 ? 1 : 0;
      for (std::size_t j = 0; j + 1 < 6; ++j)
        x(i, j) = random.normal() + 2 * z(i, 0) * (j == 1 ? 1.0 : 0.3) + (j == 2 ? z(i, 1) : 0.0) +
                  (j > 0 ? 0.5 * x(i, j - 1) : 0.0);
    }
  }
};

TEST(Leace, NoLinearProbeBeatsAConstantAndNothingElseIsLost) {
  const Concepts data;
  const Eraser eraser = leace_eraser(data.x, data.z);
  const RowMajorMatrix x = eigen(data.x.view());
  const Eigen::RowVectorXd mean = Eigen::Map<const Eigen::RowVectorXd>(eraser.mean.data(), 6);
  const RowMajorMatrix c = eigen(eraser.c.view());
  const RowMajorMatrix erased = x - (x.rowwise() - mean) * c.transpose();
  for (Eigen::Index concept_ = 0; concept_ < 2; ++concept_) {
    const Eigen::VectorXd z = eigen(data.z.view()).col(concept_);
    EXPECT_GT(explained_by_probe(x, z), 0.1);
    EXPECT_NEAR(explained_by_probe(erased, z), 0, 1e-9);
  }
  // A projection whose rank is the number of concepts: the fewest directions that can go.
  EXPECT_NEAR((c * c - c).norm(), 0, 1e-9);
  EXPECT_NEAR(c.trace(), 2, 1e-9);
  EXPECT_TRUE(erased.colwise().mean().isApprox(mean, 1e-9));
}

// Theorem 4.3: of all affine maps after which nothing is left, the one nearest to the identity.
TEST(Leace, ProjectingOutTheDifferenceOfMeansMovesMore) {
  const Concepts data;
  Matrix<double> z(300, 1);
  for (std::size_t i = 0; i < 300; ++i) z(i, 0) = data.z(i, 0);
  const Eraser eraser = leace_eraser(data.x, z);
  RowMajorMatrix x = eigen(data.x.view());
  x.rowwise() -= x.colwise().mean().eval();
  const Eigen::VectorXd z_centred = eigen(z.view()).col(0).array() - eigen(z.view()).col(0).mean();
  const Eigen::VectorXd along = (x.transpose() * z_centred).normalized();
  const double orthogonal = (x * along).squaredNorm();
  const double ours = (x * eigen(eraser.c.view()).transpose()).squaredNorm();
  EXPECT_LE(ours, orthogonal * (1 + 1e-12));
}

TEST(Leace, FeaturesOfTheNetworkTellItsHeadNothingLinear) {
  const RivalInput input = test_request().input();
  const nn::Network erased = leace(input).network;
  const Matrix<float> logits = erased.logits(input.train);
  RowMajorMatrix x(300 * 4, 3);
  Eigen::VectorXd z(300 * 4);
  for (std::size_t i = 0; i < logits.rows(); ++i) {
    for (std::size_t j = 0; j < 3; ++j)
      x(eigen_index(i), eigen_index(j)) = static_cast<double>(logits(i, j));
    z(eigen_index(i)) = input.train.labels[i] == 2 ? 1 : 0;
  }
  // The head is in float, and the sample is all of the training data.
  EXPECT_NEAR(explained_by_probe(x, z), 0, 1e-6);
}

TEST(KodgeRoy, SpacesWeighDirectionsByTheirShare) {
  // All samples along one direction: the whole of it. Alike in all: alpha / (alpha - 1 + d).
  const Matrix<double> line(2, 3, {1, 2, 2, -2, -4, -4});
  const Matrix<double> along = weighted_space(line, 30);
  const double u[] = {1.0 / 3, 2.0 / 3, 2.0 / 3};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(along(i, j), u[i] * u[j], 1e-9);
  const Matrix<double> even(3, 3, {2, 0, 0, 0, 2, 0, 0, 0, 2});
  const Matrix<double> all = weighted_space(even, 30);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(all(i, j), i == j ? 30.0 / 32 : 0, 1e-9);
}

TEST(KodgeRoy, RetainedClassesAreStillTold) {
  const RivalInput input = test_request().input();
  const ImageSet retained = without_classes(input.train, input.split.forgotten);
  const nn::Network naive = without_outputs(input.network, input.split);
  const nn::Network projected = kodge_roy(input).network;
  EXPECT_NE(projected.parameters(), naive.parameters());
  EXPECT_GT(nn::score(projected.logits(retained), retained.labels).accuracy,
            nn::score(naive.logits(retained), retained.labels).accuracy - 0.1);
}

TEST(PourP, FeaturesAlongTheForgottenRowsCountNoMore) {
  const RivalInput input = test_request().input({2, 0});
  const nn::Network projected = pour_projection(input).network;
  const auto head = projected.head_weights();
  const auto old = input.network.head_weights();
  for (std::size_t i = 0; i < head.rows(); ++i) {
    for (const std::size_t c : {0U, 2U}) {
      double product = 0;
      for (std::size_t j = 0; j < head.cols(); ++j)
        product += static_cast<double>(head(i, j)) * static_cast<double>(old(c, j));
      EXPECT_NEAR(product, 0, 1e-5);
    }
    // And nothing else: the difference is a combination of the forgotten rows.
    Eigen::MatrixXd rows(eigen_index(head.cols()), 2);
    Eigen::VectorXd change(eigen_index(head.cols()));
    for (std::size_t j = 0; j < head.cols(); ++j) {
      rows(eigen_index(j), 0) = static_cast<double>(old(0, j));
      rows(eigen_index(j), 1) = static_cast<double>(old(2, j));
      change(eigen_index(j)) =
          static_cast<double>(head(i, j)) - static_cast<double>(old(input.split.retained[i], j));
    }
    EXPECT_NEAR((rows * rows.colPivHouseholderQr().solve(change) - change).norm(), 0, 1e-5);
  }
}

}  // namespace
}  // namespace oubli
