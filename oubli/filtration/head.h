#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/array/tensor.h"

namespace oubli {

// The last layer of a classifier as it is stored: logits = weight_scale W f + bias_scale b, with W
// classes x features, or features x classes if transposed. (The scales are ONNX Gemm's alpha,
// beta.)
struct HeadView {
  TensorView weights;
  bool transposed = false;
  double weight_scale = 1;
  std::optional<TensorView> bias{};
  double bias_scale = 1;

  [[nodiscard]] std::size_t classes() const { return weights.shape.at(transposed ? 1 : 0); }
  [[nodiscard]] std::size_t features() const { return weights.shape.at(transposed ? 0 : 1); }
};

// Error{bad_input} unless weights are a float matrix and the bias, if any, has one value per class.
void validate(const HeadView& head);
// Error{bad_input} if a number of the head is none, or infinite. Reads all of it.
void require_finite(const HeadView& head);

// |sum_j w_j|^2 over the mean of |w_j|^2 [docs/method.md, eq. 6]: about the number of classes for
// rows that have nothing to do with each other, 0 where each is minus the sum of the others. NaN if
// all are zero.
[[nodiscard]] double row_sum_ratio(const HeadView& head);
// Below this, minus the sum of the other rows says more about a row than nothing does.
inline constexpr double kRowsSumToZero = 1;

// b, scaled; zeros where the head has none.
[[nodiscard]] std::vector<double> bias_of(const HeadView& head);
// X W^T + 1 b^T, scaled: the logits of features X (n x features), n x classes.
[[nodiscard]] Matrix<double> logits_of(const HeadView& head, MatrixView<const double> features);
// The same in float32, as a runtime computes them, by blocks of samples on several threads: for
// logits that are looked at, not solved with. The result does not depend on `workers`.
[[nodiscard]] Matrix<float> logits_of(const HeadView& head, MatrixView<const float> features,
                                      unsigned workers);
// |X| |W|^T + 1 |b|^T, scaled: what the rounding errors of the logits of X are measured in.
[[nodiscard]] Matrix<double> magnitudes_of(const HeadView& head, MatrixView<const double> features);
// How far rounding the head's numbers to their types can move the logits of X: eps_W |X| |W|^T +
// 1 eps_b |b|^T, and half the distance between the smallest numbers for each product. `magnitudes`
// are magnitudes_of(head, features).
[[nodiscard]] Matrix<double> storage_errors_of(const HeadView& head,
                                               MatrixView<const double> features,
                                               MatrixView<const double> magnitudes);
// Y W, scaled: combinations Y (n x classes) of the rows of W, n x features.
[[nodiscard]] Matrix<double> combine_rows(const HeadView& head,
                                          MatrixView<const double> combinations);

}  // namespace oubli
