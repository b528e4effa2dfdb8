#include "oubli/attack/logistic_regression.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>

#include "oubli/base/error.h"

namespace oubli {
namespace {

using Vector = Eigen::VectorXd;
using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr std::size_t kRowsPerBlock = 256;

// The penalised loss |w|^2 / 2 + C sum_i log(1 + exp(-s_i (w.x_i + b))), s = +-1, and at will its
// gradient and Hessian. The intercept b is the last parameter and is not penalised.
template <typename Number>
class Objective {
 public:
  Objective(MatrixView<const Number> x, std::span<const std::uint8_t> y, double c)
      : x_(x), y_(y), c_(c), size_(static_cast<Eigen::Index>(x.cols()) + 1) {}

  double value(const Vector& w) const { return evaluate(w, nullptr, nullptr); }

  double evaluate(const Vector& w, Vector* gradient, Eigen::MatrixXd* hessian) const {
    const Eigen::Index d = size_ - 1;
    if (gradient != nullptr) gradient->setZero(size_);
    if (hessian != nullptr) hessian->setZero(size_, size_);
    double loss = 0;
    for (std::size_t begin = 0; begin < x_.rows(); begin += kRowsPerBlock) {
      const auto count = static_cast<Eigen::Index>(std::min(kRowsPerBlock, x_.rows() - begin));
      Rows block(count, size_);
      block.leftCols(d) =
          Eigen::Map<const Eigen::Matrix<Number, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
              x_.data() + begin * x_.cols(), count, d)
              .template cast<double>();
      block.col(d).setOnes();
      const Vector z = block * w;
      Vector residual(count), weight(count);
      for (Eigen::Index i = 0; i < count; ++i) {
        const bool one = y_[begin + static_cast<std::size_t>(i)] != 0;
        const double e = std::exp(-std::abs(z[i]));
        loss += std::log1p(e) + (one == (z[i] < 0) ? std::abs(z[i]) : 0.0);
        const double p = z[i] >= 0 ? 1 / (1 + e) : e / (1 + e);
        residual[i] = p - (one ? 1.0 : 0.0);
        weight[i] = std::sqrt(e) / (1 + e);  // sqrt(p (1 - p))
      }
      if (gradient != nullptr) *gradient += block.transpose() * residual;
      if (hessian != nullptr) {
        block.array().colwise() *= weight.array();
        hessian->selfadjointView<Eigen::Lower>().rankUpdate(block.transpose());
      }
    }
    if (gradient != nullptr) {
      *gradient *= c_;
      gradient->head(d) += w.head(d);
    }
    if (hessian != nullptr) {
      *hessian *= c_;
      hessian->diagonal().head(d).array() += 1;
    }
    return c_ * loss + w.head(d).squaredNorm() / 2;
  }

 private:
  MatrixView<const Number> x_;
  std::span<const std::uint8_t> y_;
  double c_;
  Eigen::Index size_;
};

// Weights, then the intercept, of the smallest loss.
template <typename Number>
Vector minimise(MatrixView<const Number> x, std::span<const std::uint8_t> y,
                const LogisticRegressionOptions& options) {
  const auto d = static_cast<Eigen::Index>(x.cols());
  const Objective<Number> objective(x, y, options.inverse_penalty);
  const double tolerance =
      options.tolerance * options.inverse_penalty * static_cast<double>(x.rows());
  Vector w = Vector::Zero(d + 1), gradient;
  Eigen::MatrixXd hessian;
  double value = objective.evaluate(w, &gradient, &hessian);
  for (std::size_t iteration = 0; iteration < options.max_iterations; ++iteration) {
    if (gradient.cwiseAbs().maxCoeff() <= tolerance) break;
    // Where every point is far from the boundary the intercept's curvature may underflow.
    hessian(d, d) += 1e-12;
    const Vector step = hessian.template selfadjointView<Eigen::Lower>().ldlt().solve(gradient);
    double length = 1;
    while (length > 1e-10 &&
           !(objective.value(w - length * step) <= value - 1e-4 * length * step.dot(gradient)))
      length /= 2;
    if (length <= 1e-10) break;  // as good as it gets in double
    w -= length * step;
    value = objective.evaluate(w, &gradient, &hessian);
  }
  return w;
}

// The same of fewer points than features. The penalty keeps the weights in the span of the points:
// X = R'Q' with orthonormal columns of Q, w = Q v, |w| = |v|, and R' has as many columns as points.
Vector minimise_in_span(MatrixView<const float> x, std::span<const std::uint8_t> y,
                        const LogisticRegressionOptions& options) {
  const auto n = static_cast<Eigen::Index>(x.rows()), d = static_cast<Eigen::Index>(x.cols());
  const Eigen::MatrixXd points =
      Eigen::Map<const Eigen::MatrixXf>(x.data(), d, n).cast<double>();  // its columns
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(points);
  const Rows few = qr.matrixQR().topRows(n).triangularView<Eigen::Upper>().transpose();
  const Vector v = minimise(MatrixView<const double>(few.data(), x.rows(), x.rows()), y, options);
  Vector w = Vector::Zero(d + 1);
  w.head(n) = v.head(n);
  w.head(d) = qr.householderQ() * Vector(w.head(d));
  w[d] = v[n];
  return w;
}

}  // namespace

LogisticRegression LogisticRegression::fit(MatrixView<const float> x,
                                           std::span<const std::uint8_t> y, const Options& options,
                                           RandomStream& /*random*/) {
  OUBLI_ASSERT(x.rows() == y.size() && x.rows() > 0);
  const auto d = static_cast<Eigen::Index>(x.cols());
  const auto ones = std::ranges::count_if(y, [](auto v) { return v != 0; });
  // With one label the best intercept is infinite: say 1.
  if (ones == 0 || ones == std::ssize(y))
    return {std::vector<double>(x.cols()), ones == 0 ? -1.0 : 1.0};

  const Vector w = x.rows() < x.cols() ? minimise_in_span(x, y, options) : minimise(x, y, options);
  return {std::vector<double>(w.data(), w.data() + d), w[d]};
}

std::vector<double> LogisticRegression::score(MatrixView<const float> x) const {
  OUBLI_ASSERT(x.cols() == weights_.size());
  std::vector<double> result(x.rows(), intercept_);
  for (std::size_t i = 0; i < x.rows(); ++i) {
    const float* row = x.data() + i * x.cols();
    for (std::size_t f = 0; f < x.cols(); ++f)
      result[i] += weights_[f] * static_cast<double>(row[f]);
  }
  return result;
}

std::vector<std::uint8_t> LogisticRegression::predict(MatrixView<const float> x) const {
  return labels_of(score(x));
}

}  // namespace oubli
