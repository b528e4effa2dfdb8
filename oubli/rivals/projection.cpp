#include "oubli/rivals/projection.h"

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <algorithm>
#include <optional>

#include "oubli/rivals/layers.h"

namespace oubli {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Directions of second moments, or of a covariance, and how much there is in each.
struct Directions {
  MatrixXd vectors;  // as columns
  VectorXd amounts;
};

Directions directions_of(const MatrixXd& symmetric) {
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(symmetric);
  return {solver.eigenvectors(), solver.eigenvalues().cwiseMax(0.0)};
}

// Rounding leaves this share of the largest amount where there is nothing.
constexpr double kNothing = 1e-10;

// Rows of `w` times M.
RowMajorMatrix times_space(const RowMajorMatrix& w, const Directions& space, double alpha) {
  const VectorXd share = space.amounts / space.amounts.sum();
  const VectorXd weight = (alpha * share.array() / ((alpha - 1) * share.array() + 1)).matrix();
  return (w * space.vectors) * weight.asDiagonal() * space.vectors.transpose();
}

constexpr double kAlphaForget = 3;
constexpr double kAlphasRetain[] = {10, 30, 100, 300, 1000};
constexpr std::size_t kSpaceSamplesPerClass = 250;  // "a small subset"

// Of each layer, what its inputs span.
std::vector<Directions> spaces_of(const RivalInput& input, std::span<const std::size_t> images) {
  std::vector<Directions> spaces;
  for (const LayerSums& sums : layer_sums(input.network, input.train, images, {})) {
    // Without the 1 that the bias is the weight of.
    const Index inputs = sums.inputs.cols() - 1;
    spaces.push_back(directions_of(sums.inputs.topLeftCorner(inputs, inputs)));
  }
  return spaces;
}

LayerWeights projected(LayerWeights weights, std::span<const Directions> retained,
                       std::span<const Directions> forgotten, double alpha) {
  for (std::size_t l = 0; l < weights.size(); ++l) {
    // w . (x - M_f x + M_f M_r x) for all rows w: both M are symmetric.
    const RowMajorMatrix w = weights[l].leftCols(weights[l].cols() - 1);
    const RowMajorMatrix along = times_space(w, forgotten[l], kAlphaForget);
    weights[l].leftCols(w.cols()) = w - along + times_space(along, retained[l], alpha);
  }
  return weights;
}

}  // namespace

Matrix<double> weighted_space(MatrixView<const double> samples, double alpha) {
  Matrix<double> result(samples.cols(), samples.cols());
  const Index size = eigen_index(samples.cols());
  eigen(result.view()) =
      times_space(RowMajorMatrix::Identity(size, size),
                  directions_of(eigen(samples).transpose() * eigen(samples)), alpha);
  return result;
}

Unlearned kodge_roy(const RivalInput& input) {
  Meter meter;
  const LayerWeights old = layer_weights(input.network);
  const TrainingImages sample = sample_images(input, kSpaceSamplesPerClass);
  const std::vector<Directions> of_retained = spaces_of(input, sample.retained);
  const std::vector<Directions> of_forgotten = spaces_of(input, sample.forgotten);
  const auto samples = static_cast<double>(sample.retained.size() + sample.forgotten.size());
  meter.add_forward(samples);

  const ImageSet retained = select_images(input.train, sample.retained);
  const ImageSet forgotten = select_images(input.train, sample.forgotten);
  std::optional<nn::Network> best;
  double best_score = -1;
  for (const double alpha : kAlphasRetain) {
    nn::Network network =
        with_weights(input.network, projected(old, of_retained, of_forgotten, alpha));
    const double right = nn::score(network.logits(retained), retained.labels).accuracy;
    const double still = nn::score(network.logits(forgotten), forgotten.labels).accuracy;
    meter.add_forward(samples);
    if (right * (1 - still) <= best_score) continue;
    best_score = right * (1 - still);
    best = std::move(network);
  }
  return meter.unlearned(without_outputs(*best, input.split));
}

Eraser leace_eraser(MatrixView<const double> features, MatrixView<const double> concepts) {
  RowMajorMatrix x = eigen(features);
  RowMajorMatrix z = eigen(concepts);
  const Eigen::RowVectorXd mean = x.colwise().mean();
  x.rowwise() -= mean;
  z.rowwise() -= z.colwise().mean().eval();
  const auto n = static_cast<double>(x.rows());
  const Directions spread = directions_of(x.transpose() * x / n);
  // The pseudo-inverse of the covariance: units that are 0 for all samples have no variance.
  const double nothing = kNothing * spread.amounts.maxCoeff();
  const VectorXd inverse =
      (spread.amounts.array() > nothing).select(spread.amounts.array().inverse(), 0.0).matrix();
  const MatrixXd cross = x.transpose() * z / n;
  const MatrixXd u = spread.vectors * inverse.asDiagonal() * (spread.vectors.transpose() * cross);
  // C = cross (cross^T S^+ cross)^+ cross^T S^+
  const MatrixXd c = cross *
                     (cross.transpose() * u).completeOrthogonalDecomposition().pseudoInverse() *
                     u.transpose();
  Eraser eraser{Matrix<double>(features.cols(), features.cols()), {mean.begin(), mean.end()}};
  eigen(eraser.c.view()) = c;
  return eraser;
}

Unlearned leace(const RivalInput& input) {
  Meter meter;
  TrainingImages sample = sample_images(input);
  std::vector<std::size_t>& all = sample.retained;
  all.insert(all.end(), sample.forgotten.begin(), sample.forgotten.end());
  const Matrix<float> found = input.network.features(select_images(input.train, all));
  meter.add_forward(static_cast<double>(all.size()));
  const Matrix<double> features(found.rows(), found.cols(),
                                {found.flat().begin(), found.flat().end()});
  Matrix<double> concepts(all.size(), input.split.forgotten.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < concepts.cols(); ++j)
      concepts(i, j) = input.train.labels[all[i]] == input.split.forgotten[j] ? 1 : 0;
  const Eraser eraser = leace_eraser(features, concepts);

  // W (x - C (x - m)) + b
  const nn::Network naive = without_outputs(input.network, input.split);
  const auto weights = naive.head_weights();
  const Matrix<double> copy(weights.rows(), weights.cols(),
                            {weights.flat().begin(), weights.flat().end()});
  const RowMajorMatrix erased = eigen(copy.view()) * eigen(eraser.c.view());
  Matrix<float> head(weights.rows(), weights.cols());
  std::vector<float> bias;
  for (std::size_t i = 0; i < head.rows(); ++i) {
    double shift = static_cast<double>(naive.head_bias()[i]);
    for (std::size_t j = 0; j < head.cols(); ++j) {
      const double change = erased(eigen_index(i), eigen_index(j));
      head(i, j) = static_cast<float>(copy(i, j) - change);
      shift += change * eraser.mean[j];
    }
    bias.push_back(static_cast<float>(shift));
  }
  nn::Network result = naive;
  result.set_head(head, bias);
  return meter.unlearned(std::move(result));
}

Unlearned pour_projection(const RivalInput& input) {
  Meter meter;
  const auto all = input.network.head_weights();
  MatrixXd along(eigen_index(all.cols()), eigen_index(input.split.forgotten.size()));
  for (std::size_t c = 0; c < input.split.forgotten.size(); ++c)
    for (std::size_t j = 0; j < all.cols(); ++j)
      along(eigen_index(j), eigen_index(c)) = static_cast<double>(all(input.split.forgotten[c], j));
  const MatrixXd inverse = along.completeOrthogonalDecomposition().pseudoInverse();
  nn::Network result = without_outputs(input.network, input.split);
  const auto kept = result.head_weights();
  const Matrix<double> copy(kept.rows(), kept.cols(), {kept.flat().begin(), kept.flat().end()});
  const RowMajorMatrix removed = (eigen(copy.view()) * along) * inverse;
  Matrix<float> head(kept.rows(), kept.cols());
  for (std::size_t i = 0; i < head.rows(); ++i)
    for (std::size_t j = 0; j < head.cols(); ++j)
      head(i, j) = static_cast<float>(copy(i, j) - removed(eigen_index(i), eigen_index(j)));
  const std::vector<float> bias(result.head_bias().begin(), result.head_bias().end());
  result.set_head(head, bias);
  return meter.unlearned(std::move(result));
}

}  // namespace oubli
