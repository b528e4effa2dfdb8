#include "oubli/audit/feature_figures.h"

#include <Eigen/Dense>
#include <algorithm>
#include <numeric>
#include <vector>

#include "oubli/audit/recognition.h"
#include "oubli/base/error.h"
#include "oubli/base/random.h"

namespace oubli {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd rows_of(MatrixView<const float> x, std::span<const std::size_t> rows) {
  MatrixXd out(static_cast<Index>(rows.size()), static_cast<Index>(x.cols()));
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = 0; j < x.cols(); ++j)
      out(static_cast<Index>(i), static_cast<Index>(j)) = static_cast<double>(x(rows[i], j));
  return out;
}

MatrixXd centred(MatrixView<const float> x) {
  std::vector<std::size_t> rows(x.rows());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  MatrixXd out = rows_of(x, rows);
  out.rowwise() -= out.colwise().mean();
  return out;
}

// How many of the samples of class c among `test` a probe fitted on `train` gives back.
std::size_t recalled(MatrixView<const float> features, std::span<const std::uint32_t> labels,
                     std::size_t classes, std::size_t c, std::span<const std::size_t> train,
                     std::span<const std::size_t> test) {
  MatrixXd x = rows_of(features, train);
  const VectorXd mean = x.colwise().mean();
  x.rowwise() -= mean.transpose();
  MatrixXd y = MatrixXd::Zero(x.rows(), static_cast<Index>(classes));
  for (std::size_t i = 0; i < train.size(); ++i)
    y(static_cast<Index>(i), static_cast<Index>(labels[train[i]])) = 1;
  const VectorXd frequency = y.colwise().mean();
  y.rowwise() -= frequency.transpose();
  // The smaller of the two products: (X'X + rI)^-1 X' = X'(XX' + rI)^-1.
  const bool wide = x.rows() < x.cols();
  MatrixXd gram = wide ? MatrixXd(x * x.transpose()) : MatrixXd(x.transpose() * x);
  const double ridge = 1e-3 * gram.trace() / static_cast<double>(x.cols());
  gram.diagonal().array() += ridge > 0 ? ridge : 1;
  const MatrixXd weights = wide ? MatrixXd(x.transpose() * gram.ldlt().solve(y))
                                : MatrixXd(gram.ldlt().solve(x.transpose() * y));
  std::size_t right = 0;
  for (const std::size_t row : test) {
    if (labels[row] != c) continue;
    VectorXd sample(mean.size());
    for (Index j = 0; j < sample.size(); ++j)
      sample[j] = static_cast<double>(features(row, static_cast<std::size_t>(j)));
    const VectorXd scores = weights.transpose() * (sample - mean) + frequency;
    Index top = 0;
    scores.maxCoeff(&top);
    if (top == static_cast<Index>(c)) ++right;
  }
  return right;
}

}  // namespace

std::optional<double> probe_recall(MatrixView<const float> features,
                                   std::span<const std::uint32_t> labels, std::size_t classes,
                                   std::size_t c, std::uint64_t seed) {
  OUBLI_ASSERT(features.rows() == labels.size());
  const auto own = static_cast<std::size_t>(std::ranges::count(labels, c));
  if (std::min(own, labels.size() - own) < kReadoutSamples) return std::nullopt;
  std::vector<std::size_t> order(labels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  RandomStream random(seed, task_id("probe halves", {c}));
  random.shuffle(std::span(order));
  const std::span<const std::size_t> first(order.data(), order.size() / 2);
  const std::span<const std::size_t> second(order.data() + first.size(),
                                            order.size() - first.size());
  const std::size_t right = recalled(features, labels, classes, c, first, second) +
                            recalled(features, labels, classes, c, second, first);
  return static_cast<double>(right) / static_cast<double>(own);
}

std::optional<double> linear_cka(MatrixView<const float> x, MatrixView<const float> y) {
  OUBLI_ASSERT(x.rows() == y.rows());
  const MatrixXd a = centred(x), b = centred(y);
  // |B'A|^2 = <AA', BB'>: the smaller of the two products.
  const bool wide = a.rows() < std::min(a.cols(), b.cols());
  const MatrixXd of = wide ? MatrixXd(a * a.transpose()) : MatrixXd(a.transpose() * a);
  const MatrixXd other = wide ? MatrixXd(b * b.transpose()) : MatrixXd(b.transpose() * b);
  const double across = wide ? of.cwiseProduct(other).sum() : (b.transpose() * a).squaredNorm();
  const double of_a = of.norm(), of_b = other.norm();
  if (of_a == 0 || of_b == 0) return std::nullopt;
  return across / (of_a * of_b);
}

}  // namespace oubli
