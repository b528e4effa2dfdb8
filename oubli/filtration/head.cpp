#include "oubli/filtration/head.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "oubli/array/row_blocks.h"
#include "oubli/base/workers.h"
#include "oubli/filtration/eigen.h"

namespace oubli {
namespace {

// X of(S)^T and Y of(S) for a stored matrix S, read once from top to bottom; `of` acts on entries.
template <typename Of>
Matrix<double> times_transpose(MatrixView<const double> X, const TensorView& S, Of of) {
  // Some milliseconds, and more than starting a thread takes. The blocks do not depend on the
  // workers, so the result does not. All of X is packed for each block: large ones pay.
  const bool large = static_cast<double>(X.rows()) * static_cast<double>(S.count()) > 1e8;
  auto product = Matrix<double>::for_overwrite(X.rows(), S.shape[0]);
  for_each_row_block(
      S, large ? available_cores() : 1,
      [&](std::size_t first, MatrixView<const double> block) {
        eigen(product.view()).middleCols(eigen_index(first), eigen_index(block.rows())).noalias() =
            eigen(X) * of(eigen(block)).transpose();
      },
      large ? 2 * kRowBlockElements : kRowBlockElements);
  return product;
}

template <typename Of>
Matrix<double> times(MatrixView<const double> Y, const TensorView& S, Of of) {
  Matrix<double> product(Y.rows(), S.shape[1]);
  for_each_row_block(S, [&](std::size_t first, MatrixView<const double> block) {
    eigen(product.view()).noalias() +=
        eigen(Y).middleCols(eigen_index(first), eigen_index(block.rows())) * of(eigen(block));
  });
  return product;
}

constexpr auto kValues = [](const auto& block) { return block; };
constexpr auto kMagnitudes = [](const auto& block) { return block.cwiseAbs(); };

void add_to_rows(Matrix<double>& logits, const std::vector<double>& bias) {
  eigen(logits.view()).rowwise() +=
      Eigen::Map<const Eigen::RowVectorXd>(bias.data(), eigen_index(bias.size()));
}

}  // namespace

void validate(const HeadView& head) {
  if (head.weights.rank() != 2 || !is_float(head.weights.dtype))
    fail(ErrorCode::bad_input, "{}: {}, wanted a matrix of floating-point numbers",
         head.weights.what, describe(head.weights));
  if (head.features() == 0) fail(ErrorCode::bad_input, "{}: no features", head.weights.what);
  if (head.classes() == 0) fail(ErrorCode::bad_input, "{}: no classes", head.weights.what);
  if (!head.bias) return;
  const auto is_long = [](std::size_t extent) { return extent != 1; };
  if (!is_float(head.bias->dtype) || head.bias->count() != head.classes() ||
      std::ranges::count_if(head.bias->shape, is_long) > 1)
    fail(ErrorCode::bad_input, "{}: {}, wanted {} floating-point numbers, one per class",
         head.bias->what, describe(*head.bias), head.classes());
}

void require_finite(const HeadView& head) {
  for_each_row_block(head.weights, available_cores(), [](std::size_t, MatrixView<const double>) {});
  (void)bias_of(head);
}

double row_sum_ratio(const HeadView& head) {
  std::vector<double> sum(head.features());
  double squares = 0;
  for_each_row_block(head.weights, [&](std::size_t first, MatrixView<const double> block) {
    for (std::size_t n = 0; n < block.rows(); ++n) {
      const std::span<const double> row = block.row(n);
      for (std::size_t i = 0; i < row.size(); ++i) {
        sum[head.transposed ? first + n : i] += row[i];
        squares += row[i] * row[i];
      }
    }
  });
  double of_sum = 0;
  for (const double value : sum) of_sum += value * value;
  return of_sum * static_cast<double>(head.classes()) / squares;
}

std::vector<double> bias_of(const HeadView& head) {
  std::vector<double> bias(head.classes());
  if (!head.bias) return bias;
  decode(head.bias->dtype, head.bias->bytes, bias);
  require_finite(MatrixView<const double>(bias.data(), 1, bias.size()), head.bias->what);
  for (double& value : bias) value *= head.bias_scale;
  return bias;
}

Matrix<double> logits_of(const HeadView& head, MatrixView<const double> features) {
  OUBLI_ASSERT(features.cols() == head.features());
  Matrix<double> logits = head.transposed ? times(features, head.weights, kValues)
                                          : times_transpose(features, head.weights, kValues);
  eigen(logits.view()) *= head.weight_scale;
  add_to_rows(logits, bias_of(head));
  return logits;
}

Matrix<double> magnitudes_of(const HeadView& head, MatrixView<const double> features) {
  OUBLI_ASSERT(features.cols() == head.features());
  auto sizes = Matrix<double>::for_overwrite(features.rows(), features.cols());
  eigen(sizes.view()) = eigen(features).cwiseAbs();
  Matrix<double> magnitudes = head.transposed ? times(sizes, head.weights, kMagnitudes)
                                              : times_transpose(sizes, head.weights, kMagnitudes);
  eigen(magnitudes.view()) *= std::abs(head.weight_scale);
  std::vector<double> bias = bias_of(head);
  for (double& value : bias) value = std::abs(value);
  add_to_rows(magnitudes, bias);
  return magnitudes;
}

Matrix<double> storage_errors_of(const HeadView& head, MatrixView<const double> features,
                                 MatrixView<const double> magnitudes) {
  const double eps_weights = unit_roundoff(head.weights.dtype);
  const double least_weight =
      smallest_positive(head.weights.dtype) / 2 * std::abs(head.weight_scale);
  const double eps_bias = head.bias ? unit_roundoff(head.bias->dtype) : 0;
  const double least_bias =
      head.bias ? smallest_positive(head.bias->dtype) / 2 * std::abs(head.bias_scale) : 0;
  const std::vector<double> bias = bias_of(head);
  auto errors = Matrix<double>::for_overwrite(magnitudes.rows(), magnitudes.cols());
  for (std::size_t n = 0; n < errors.rows(); ++n) {
    double size = 0;
    for (const double value : features.row(n)) size += std::abs(value);
    for (std::size_t j = 0; j < errors.cols(); ++j) {
      const double of_bias = std::abs(bias[j]);
      errors(n, j) = eps_weights * std::max(0.0, magnitudes(n, j) - of_bias) + least_weight * size +
                     eps_bias * of_bias + least_bias;
    }
  }
  return errors;
}

Matrix<float> logits_of(const HeadView& head, MatrixView<const float> features, unsigned workers) {
  OUBLI_ASSERT(features.cols() == head.features());
  using FloatMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Matrix<float> stored = to_float_matrix(head.weights);
  const Eigen::Map<const FloatMatrix> W(stored.data(), eigen_index(head.weights.shape[0]),
                                        eigen_index(head.weights.shape[1]));
  const std::vector<double> bias = bias_of(head);
  const Eigen::RowVectorXf b =
      Eigen::Map<const Eigen::RowVectorXd>(bias.data(), eigen_index(bias.size())).cast<float>();
  const auto scale = static_cast<float>(head.weight_scale);
  auto logits = Matrix<float>::for_overwrite(features.rows(), head.classes());
  constexpr std::size_t kBlock = 256;
  run_tasks((features.rows() + kBlock - 1) / kBlock, workers, [&](std::size_t block, unsigned) {
    const std::size_t first = block * kBlock;
    const std::size_t rows = std::min(kBlock, features.rows() - first);
    const Eigen::Map<const FloatMatrix> X(features.row(first).data(), eigen_index(rows),
                                          eigen_index(features.cols()));
    Eigen::Map<FloatMatrix> Y(logits.row(first).data(), eigen_index(rows),
                              eigen_index(logits.cols()));
    if (head.transposed)
      Y.noalias() = X * W;
    else
      Y.noalias() = X * W.transpose();
    Y *= scale;
    Y.rowwise() += b;
  });
  return logits;
}

namespace {

// One combination, summed in the order of the classes in either layout. The mean of a few rows of
// float32 is often such a number that a new weight lies halfway between two others: then the last
// bit of the sum decides, and the same head in another file would become another one.
Matrix<double> combine_in_order(const TensorView& weights, bool transposed,
                                std::span<const double> factors) {
  Matrix<double> sum(1, weights.shape[transposed ? 0 : 1]);
  const std::span<double> sums = sum.row(0);
  for_each_row_block(weights, [&](std::size_t first, MatrixView<const double> block) {
    for (std::size_t n = 0; n < block.rows(); ++n) {
      const std::span<const double> row = block.row(n);
      if (transposed)
        for (std::size_t j = 0; j < row.size(); ++j) sums[first + n] += factors[j] * row[j];
      else
        for (std::size_t f = 0; f < row.size(); ++f) sums[f] += factors[first + n] * row[f];
    }
  });
  return sum;
}

}  // namespace

Matrix<double> combine_rows(const HeadView& head, MatrixView<const double> combinations) {
  OUBLI_ASSERT(combinations.cols() == head.classes());
  if (combinations.rows() == 1) {
    Matrix<double> row = combine_in_order(head.weights, head.transposed, combinations.row(0));
    eigen(row.view()) *= head.weight_scale;
    return row;
  }
  Matrix<double> rows = head.transposed ? times_transpose(combinations, head.weights, kValues)
                                        : times(combinations, head.weights, kValues);
  eigen(rows.view()) *= head.weight_scale;
  return rows;
}

}  // namespace oubli
