#include "oubli/rivals/curvature.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>

#include "oubli/base/error.h"
#include "oubli/base/random.h"
#include "oubli/rivals/dense_chain.h"

namespace oubli {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kDamping = 3;
constexpr double kRidge = 1e-3;
// The guard.
constexpr double kLeastProbability = 0.2, kMostProbability = 0.5;
constexpr double kAccuracyLoss = 0.003;
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

// What both steps work with.
struct Setting {
  const RivalInput& input;
  Meter& meter;
  DenseChain old;
  RowMajorMatrix retained, forgotten;  // pixels
  std::vector<std::size_t> labels;     // of retained, renumbered
  std::vector<std::size_t> forgotten_labels;
  RowMajorMatrix old_logits;  // of retained samples, retained outputs
  RowMajorMatrix step;        // of the first layer
};

Setting prepare(const RivalInput& input, Meter& meter) {
  const TrainingImages sample = sample_images(input);
  const TrainingImages all = images_of(input);
  Setting s{.input = input,
            .meter = meter,
            .old = dense_chain(input.network),
            .retained = pixels(input.train, sample.retained),
            .forgotten = pixels(input.train, sample.forgotten),
            .labels = {},
            .forgotten_labels = labels_of(input.train, sample.forgotten),
            .old_logits = {},
            .step = {}};
  if (s.old.size() < 2) fail(ErrorCode::usage, "curvature step: a network without a hidden layer");
  for (const std::size_t label : labels_of(input.train, sample.retained))
    s.labels.push_back(*input.split.new_index(label));

  const ChainPass forget = forward(s.old, s.forgotten);
  const auto pull = backward(s.old, forget, loss_gradient(forget.logits, s.forgotten_labels));
  const double share =
      static_cast<double>(all.forgotten.size()) / static_cast<double>(all.retained.size());
  const RowMajorMatrix gradient =
      pull[0].transpose() * forget.inputs[0] * (share / static_cast<double>(s.forgotten.rows()));

  const ChainPass retain = forward(s.old, s.retained);
  RandomStream random(input.recipe.seed, random_task(input, "rival curvature"));
  const auto back =
      backward(s.old, retain, loss_gradient(retain.logits, drawn_labels(retain.logits, random)));
  const auto n = static_cast<double>(s.retained.rows());
  const RowMajorMatrix a = retain.inputs[0].transpose() * retain.inputs[0] / n;
  const RowMajorMatrix g = back[0].transpose() * back[0] / n;
  const Matrix<double> step = kronecker_step(view_of(a), view_of(g), view_of(gradient), kDamping);
  s.step = eigen(step.view());
  s.old_logits = forward(without_outputs(s.old, input.split), s.retained).logits;
  meter.add_gradients(static_cast<double>(s.retained.rows() + s.forgotten.rows()));
  meter.add_forward(n);
  return s;
}

DenseChain stepped(const Setting& s, double scale) {
  DenseChain chain = s.old;
  chain[0].weights += scale * s.step;
  return chain;
}

// The stepped network with a head that is fitted to it; and its accuracy on retained samples.
struct Fitted {
  DenseChain chain;
  double accuracy = 0;
};
Fitted fitted(const Setting& s, double scale) {
  Fitted result{stepped(s, scale), 0};
  const ChainPass pass = forward(result.chain, s.retained);
  const RowMajorMatrix& inputs = pass.inputs.back();
  const RowMajorMatrix features = inputs.leftCols(inputs.cols() - 1);
  const Matrix<double> head = ridge_head(view_of(features), view_of(s.old_logits), kRidge);
  result.chain.back().weights = eigen(head.view());
  const RowMajorMatrix logits = inputs * result.chain.back().weights.transpose();
  result.accuracy = accuracy_of(logits, s.labels);
  s.meter.add_forward(static_cast<double>(s.retained.rows()));
  return result;
}

// The mean probability that the old head gives forgotten samples' own class after the step.
double own_probability(const Setting& s, double scale) {
  const RowMajorMatrix p = softmax(forward(stepped(s, scale), s.forgotten).logits);
  s.meter.add_forward(static_cast<double>(s.forgotten.rows()));
  double sum = 0;
  for (std::size_t i = 0; i < s.forgotten_labels.size(); ++i)
    sum += p(eigen_index(i), eigen_index(s.forgotten_labels[i]));
  return sum / static_cast<double>(s.forgotten_labels.size());
}

double guarded_scale(const Setting& s) {
  double low = 0, high = 1;  // the class is too sure at low, and not sure enough at high
  for (int doubling = 0; doubling < 6 && own_probability(s, high) > kMostProbability; ++doubling) {
    low = high;
    high *= 2;
  }
  double scale = high;
  for (int halving = 0; halving < kHalvings; ++halving) {
    const double p = own_probability(s, scale);
    if (p >= kLeastProbability && p <= kMostProbability) break;
    (p > kMostProbability ? low : high) = scale;
    scale = (low + high) / 2;
  }
  return scale;
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
  const auto report = [&](const Fitted& found) {
    results.push_back(meter.unlearned(with_weights(input.network, found.chain)));
  };
  report(fitted(s, 1));
  double scale = guarded_scale(s);
  const double before = accuracy_of(s.old_logits, s.labels);
  Fitted found = fitted(s, scale);
  for (int i = 0; i < kShrinkings && found.accuracy < before - kAccuracyLoss; ++i)
    found = fitted(s, scale *= kShrink);
  report(found);
  return results;
}

}  // namespace oubli
