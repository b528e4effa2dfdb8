#include "oubli/rivals/curvature.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>

#include "oubli/base/error.h"
#include "oubli/base/random.h"
#include "oubli/rivals/layers.h"

namespace oubli {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kDamping = 3;
constexpr double kRidge = 1e-3;
// The guard.
constexpr double kShrink = 0.7;
constexpr int kHalvings = 12, kShrinkings = 12;

// One label per row, drawn with the row's probabilities.
std::vector<std::size_t> drawn_labels(const RowMajorMatrix& logits, RandomStream& random) {
  const RowMajorMatrix p = softmax(logits);
  std::vector<std::size_t> labels;
  for (Index i = 0; i < p.rows(); ++i) {
    double left = random.uniform();
    Index label = 0;
    while (label + 1 < p.cols() && (left -= p(i, label)) >= 0) ++label;
    labels.push_back(static_cast<std::size_t>(label));
  }
  return labels;
}

MatrixView<const double> view_of(const RowMajorMatrix& m) {
  return {m.data(), static_cast<std::size_t>(m.rows()), static_cast<std::size_t>(m.cols())};
}

// Share of rows whose largest value is at the label.
double accuracy_of(const RowMajorMatrix& logits, std::span<const std::uint32_t> labels) {
  double right = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    Index top = 0;
    logits.row(eigen_index(i)).maxCoeff(&top);
    if (top == eigen_index(labels[i])) ++right;
  }
  return right / static_cast<double>(std::max<std::size_t>(labels.size(), 1));
}

// What both steps work with.
struct Setting {
  const RivalInput& input;
  Meter& meter;
  LayerWeights old;
  ImageSet retained, forgotten;  // samples
  RowMajorMatrix old_logits;     // of retained samples, retained outputs
  RowMajorMatrix step;           // of the layer before the head
};

// Newton's step of the layer before the head, away from what the forgotten samples ask for.
RowMajorMatrix newton_step(const RivalInput& input, const TrainingImages& sample,
                           std::size_t layer) {
  const TrainingImages all = images_of(input);
  const double share =
      static_cast<double>(all.forgotten.size()) / static_cast<double>(all.retained.size());
  const LayerSums pull = layer_sums(input.network, input.train, sample.forgotten,
                                    loss_gradient(input.train), layer)[layer];
  RandomStream random(input.recipe.seed, random_task(input, "rival curvature"));
  const auto drawn = [&](const RowMajorMatrix& logits, std::span<const std::size_t>) {
    return loss_gradient(logits, drawn_labels(logits, random));
  };
  const LayerSums kept =
      layer_sums(input.network, input.train, sample.retained, drawn, layer)[layer];
  const auto n = static_cast<double>(sample.retained.size());
  const RowMajorMatrix gradient =
      pull.gradient * (share / static_cast<double>(sample.forgotten.size()));
  // Of a convolution: patches summed over positions, gradients their mean.
  const RowMajorMatrix a = kept.inputs / n;
  const RowMajorMatrix g = kept.deltas / (n * kept.positions);
  const Matrix<double> step = kronecker_step(view_of(a), view_of(g), view_of(gradient), kDamping);
  return eigen(step.view());
}

Setting prepare(const RivalInput& input, Meter& meter) {
  const TrainingImages sample = sample_images(input);
  Setting s{.input = input,
            .meter = meter,
            .old = layer_weights(input.network),
            .retained =
                without_classes(select_images(input.train, sample.retained), input.split.forgotten),
            .forgotten = select_images(input.train, sample.forgotten),
            .old_logits = {},
            .step = {}};
  if (s.old.size() < 2) fail(ErrorCode::usage, "curvature step: a network without a hidden layer");
  s.step = newton_step(input, sample, s.old.size() - 2);
  s.old_logits = to_double(without_outputs(input.network, input.split).logits(s.retained));
  meter.add_gradients(static_cast<double>(s.retained.size() + s.forgotten.size()));
  meter.add_forward(static_cast<double>(s.retained.size()));
  return s;
}

LayerWeights stepped(const Setting& s, double scale) {
  LayerWeights weights = s.old;
  weights[weights.size() - 2] += scale * s.step;
  return weights;
}

// The stepped network with a head that is fitted to it; and its accuracy on retained samples.
struct Fitted {
  nn::Network network;
  double accuracy = 0;
};
Fitted fitted(const Setting& s, double scale) {
  LayerWeights weights = stepped(s, scale);
  const RowMajorMatrix features =
      to_double(with_weights(s.input.network, weights).features(s.retained));
  const Matrix<double> fit = ridge_head(view_of(features), view_of(s.old_logits), kRidge);
  const RowMajorMatrix& head = weights.back() = eigen(fit.view());
  s.meter.add_forward(static_cast<double>(s.retained.size()));
  RowMajorMatrix logits = features * head.leftCols(features.cols()).transpose();
  logits.rowwise() += head.col(features.cols()).transpose();
  return {with_weights(s.input.network, weights), accuracy_of(logits, s.retained.labels)};
}

// The mean probability that the old head gives forgotten samples' own class after the step.
double own_probability(const Setting& s, double scale) {
  const RowMajorMatrix p =
      softmax(to_double(with_weights(s.input.network, stepped(s, scale)).logits(s.forgotten)));
  s.meter.add_forward(static_cast<double>(s.forgotten.size()));
  double sum = 0;
  for (std::size_t i = 0; i < s.forgotten.size(); ++i)
    sum += p(eigen_index(i), eigen_index(s.forgotten.labels[i]));
  return sum / static_cast<double>(s.forgotten.size());
}

double scale_that_makes_unsure(const Setting& s) {
  double low = 0, high = 1;  // the class is too sure at low, and not sure enough at high
  for (int doubling = 0; doubling < 6 && own_probability(s, high) > kMostOwnProbability;
       ++doubling) {
    low = high;
    high *= 2;
  }
  double scale = high;
  for (int halving = 0; halving < kHalvings; ++halving) {
    const double p = own_probability(s, scale);
    if (p >= kLeastOwnProbability && p <= kMostOwnProbability) break;
    (p > kMostOwnProbability ? low : high) = scale;
    scale = (low + high) / 2;
  }
  return scale;
}

struct Guarded {
  Fitted fitted;
  double scale = 0;
  double accuracy_before = 0;
};
Guarded guarded(const Setting& s) {
  const double scale = scale_that_makes_unsure(s);
  Guarded found{fitted(s, scale), scale, accuracy_of(s.old_logits, s.retained.labels)};
  for (int i = 0;
       i < kShrinkings && found.fitted.accuracy < found.accuracy_before - kGuardedAccuracyLoss; ++i)
    found.fitted = fitted(s, found.scale *= kShrink);
  return found;
}

}  // namespace

Matrix<double> kronecker_step(MatrixView<const double> a, MatrixView<const double> g,
                              MatrixView<const double> gradient, double damping) {
  const Eigen::SelfAdjointEigenSolver<MatrixXd> inputs{MatrixXd(eigen(a))};
  const Eigen::SelfAdjointEigenSolver<MatrixXd> outputs{MatrixXd(eigen(g))};
  const VectorXd& x = inputs.eigenvalues();
  const VectorXd& y = outputs.eigenvalues();
  MatrixXd turned = outputs.eigenvectors().transpose() * eigen(gradient) * inputs.eigenvectors();
  turned.array() /= (y * x.transpose()).array() + damping * y.mean() * x.mean();
  Matrix<double> step(gradient.rows(), gradient.cols());
  eigen(step.view()) = outputs.eigenvectors() * turned * inputs.eigenvectors().transpose();
  return step;
}

Matrix<double> ridge_head(MatrixView<const double> features, MatrixView<const double> targets,
                          double share) {
  RowMajorMatrix x = eigen(features);
  RowMajorMatrix y = eigen(targets);
  const Eigen::RowVectorXd x_mean = x.colwise().mean(), y_mean = y.colwise().mean();
  x.rowwise() -= x_mean;
  y.rowwise() -= y_mean;
  const auto n = static_cast<double>(x.rows());
  MatrixXd s = x.transpose() * x / n;
  s.diagonal().array() += share * s.trace() / static_cast<double>(s.rows());
  const MatrixXd w = s.ldlt().solve(MatrixXd(x.transpose() * y / n)).transpose();
  Matrix<double> head(targets.cols(), features.cols() + 1);
  eigen(head.view()).leftCols(w.cols()) = w;
  eigen(head.view()).col(w.cols()) = y_mean.transpose() - w * x_mean.transpose();
  return head;
}

std::vector<Unlearned> curvature_step(const RivalInput& input) {
  Meter meter;
  const Setting s = prepare(input, meter);
  std::vector<Unlearned> results;
  results.push_back(meter.unlearned(fitted(s, 1).network));
  results.push_back(meter.unlearned(guarded(s).fitted.network));
  return results;
}

GuardedStep guarded_curvature_step(const RivalInput& input) {
  Meter meter;
  const Setting s = prepare(input, meter);
  Guarded found = guarded(s);
  return {.network = std::move(found.fitted.network),
          .scale = found.scale,
          .own_probability_before = own_probability(s, 0),
          .own_probability = own_probability(s, found.scale),
          .accuracy_before = found.accuracy_before,
          .accuracy = found.fitted.accuracy,
          .retained = s.retained.size(),
          .forgotten = s.forgotten.size()};
}

}  // namespace oubli
