#include "oubli/filtration/filter.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "oubli/array/row_blocks.h"
#include "oubli/filtration/eigen.h"

namespace oubli {
namespace {

// out = pi(row) + sum_t coefficient_t d_t
template <typename T>
void keep_and_correct(std::span<const T> row, const std::vector<std::size_t>& retained,
                      const Matrix<double>& d, std::span<const double> coefficients,
                      std::span<double> out) {
  for (std::size_t i = 0; i < retained.size(); ++i) out[i] = static_cast<double>(row[retained[i]]);
  for (std::size_t t = 0; t < coefficients.size(); ++t)
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += coefficients[t] * d(t, i);
}

template <typename T>
Matrix<T> apply_to(const LogitFilter& filter, MatrixView<const T> logits) {
  OUBLI_ASSERT(logits.cols() == filter.split.classes);
  Matrix<T> filtered(logits.rows(), filter.split.retained.size());
  std::vector<double> g(filter.beta.size()), row(filter.split.retained.size());
  for (std::size_t n = 0; n < logits.rows(); ++n) {
    for (std::size_t t = 0; t < g.size(); ++t) {
      g[t] = filter.beta[t];
      for (std::size_t j = 0; j < filter.split.classes; ++j)
        g[t] += filter.y(t, j) * static_cast<double>(logits(n, j));
    }
    keep_and_correct(logits.row(n), filter.split.retained, filter.d, g, std::span(row));
    std::ranges::transform(row, filtered.row(n).begin(),
                           [](double v) { return static_cast<T>(v); });
  }
  return filtered;
}

// The terms of a filter, d minus its mean, and one more: -1 times the mean retained logit.
struct CentredTerms {
  CentredTerms(const Matrix<double>& d_old, const Matrix<double>& rows_old,
               std::span<const double> beta_old, std::span<const double> mean_row,
               double mean_beta) {
    std::vector<std::size_t> kept;  // those that do not move all logits alike
    for (std::size_t t = 0; t < beta_old.size(); ++t) {
      const auto row = d_old.row(t);
      if (std::ranges::any_of(row, [&](double v) { return v != row.front(); })) kept.push_back(t);
    }
    d = Matrix<double>(kept.size() + 1, d_old.cols());
    rows = Matrix<double>(kept.size() + 1, mean_row.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const auto old = d_old.row(kept[i]);
      const double mean =
          std::accumulate(old.begin(), old.end(), 0.0) / static_cast<double>(old.size());
      std::ranges::transform(old, d.row(i).begin(), [&](double v) { return v - mean; });
      std::ranges::copy(rows_old.row(kept[i]), rows.row(i).begin());
      beta.push_back(beta_old[kept[i]]);
    }
    std::ranges::fill(d.row(kept.size()), -1.0);
    std::ranges::copy(mean_row, rows.row(kept.size()).begin());
    beta.push_back(mean_beta);
  }

  Matrix<double> d, rows;
  std::vector<double> beta;
};

}  // namespace

Matrix<double> average_of(const ClassSplit& split) {
  Matrix<double> weights(1, split.classes);
  for (const std::size_t j : split.retained)
    weights(0, j) = 1 / static_cast<double>(split.retained.size());
  return weights;
}

LogitFilter centred(const LogitFilter& filter) {
  const Matrix<double> average = average_of(filter.split);
  CentredTerms terms(filter.d, filter.y, filter.beta, average.row(0), 0);
  return {filter.split, std::move(terms.d), std::move(terms.rows), std::move(terms.beta)};
}

HeadFilter centred(const HeadFilter& filter, const HeadView& head) {
  const Matrix<double> average = average_of(filter.split);
  const std::vector<double> bias = bias_of(head);
  const double mean_bias =
      std::inner_product(bias.begin(), bias.end(), average.row(0).begin(), 0.0);
  CentredTerms terms(filter.d, filter.u, filter.beta, combine_rows(head, average).row(0),
                     mean_bias);
  return {filter.split, std::move(terms.d), std::move(terms.rows), std::move(terms.beta)};
}

Matrix<double> LogitFilter::apply(MatrixView<const double> logits) const {
  return apply_to(*this, logits);
}
Matrix<float> LogitFilter::apply(MatrixView<const float> logits) const {
  return apply_to(*this, logits);
}

Matrix<double> LogitFilter::matrix() const {
  Matrix<double> F(split.retained.size(), split.classes);
  for (std::size_t i = 0; i < F.rows(); ++i) F(i, split.retained[i]) = 1;
  if (!beta.empty()) eigen(F.view()) += eigen(d.view()).transpose() * eigen(y.view());
  return F;
}

HeadFilter absorb(const LogitFilter& filter, const HeadView& head) {
  OUBLI_ASSERT(filter.split.classes == head.classes());
  HeadFilter absorbed{filter.split, filter.d, combine_rows(head, filter.y), filter.beta};
  const std::vector<double> bias = bias_of(head);
  for (std::size_t t = 0; t < absorbed.beta.size(); ++t)
    for (std::size_t j = 0; j < bias.size(); ++j) absorbed.beta[t] += bias[j] * filter.y(t, j);
  return absorbed;
}

NewHead HeadFilter::apply(const HeadView& head) const {
  OUBLI_ASSERT(head.classes() == split.classes);
  const std::vector<std::size_t>& retained = split.retained;
  const std::size_t kept = retained.size(), features = head.features(), terms = beta.size();
  const DType type = head.weights.dtype;
  NewHead result;
  result.weights = {type,
                    head.transposed ? std::vector{features, kept} : std::vector{kept, features},
                    std::vector<std::byte>(kept * features * size_of(type))};
  const auto put = [&](std::size_t stored_row, std::span<const double> values) {
    const std::size_t row_bytes = values.size() * size_of(type);
    encode(type, values,
           std::span(result.weights.bytes).subspan(stored_row * row_bytes, row_bytes));
  };
  // What is stored is W, not weight_scale W, so the correction is divided by the scale.
  if (head.transposed) {  // a stored row is one feature, over the classes
    std::vector<double> row(kept), coefficients(terms);
    for_each_row_block(head.weights, [&](std::size_t first, MatrixView<const double> block) {
      for (std::size_t n = 0; n < block.rows(); ++n) {
        for (std::size_t t = 0; t < terms; ++t)
          coefficients[t] = u(t, first + n) / head.weight_scale;
        keep_and_correct(block.row(n), retained, d, coefficients, std::span(row));
        put(first + n, row);
      }
    });
  } else {  // a stored row is one class, over the features
    std::vector<double> row(features);
    std::size_t next = 0;  // of `retained`
    for_each_row_block(head.weights, [&](std::size_t first, MatrixView<const double> block) {
      for (std::size_t n = 0; n < block.rows() && next < kept; ++n) {
        if (first + n != retained[next]) continue;
        std::ranges::copy(block.row(n), row.begin());
        for (std::size_t t = 0; t < terms; ++t) {
          const double scaled = d(t, next) / head.weight_scale;
          const std::span<const double> u_t = u.row(t);
          for (std::size_t f = 0; f < features; ++f) row[f] += scaled * u_t[f];
        }
        put(next++, row);
      }
    });
  }

  const bool has_constant = std::ranges::any_of(beta, [](double b) { return b != 0; });
  result.bias_added = !head.bias && has_constant;
  if (!head.bias && !has_constant) return result;
  std::vector<double> old_bias(split.classes), new_bias(kept), coefficients(beta);
  if (head.bias) decode(head.bias->dtype, head.bias->bytes, old_bias);
  for (double& value : coefficients) value /= head.bias_scale;
  keep_and_correct(std::span<const double>(old_bias), retained, d, coefficients,
                   std::span(new_bias));
  result.bias = to_tensor(new_bias, head.bias ? head.bias->dtype : type);
  if (head.bias) {  // [1, classes] stays [1, classes']
    result.bias->shape = head.bias->shape;
    *std::ranges::find(result.bias->shape, split.classes) = kept;
  }
  return result;
}

}  // namespace oubli
