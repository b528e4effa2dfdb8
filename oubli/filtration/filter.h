#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/array/tensor.h"
#include "oubli/base/class_split.h"
#include "oubli/filtration/head.h"

namespace oubli {

// A filtration as a function of logits [docs/method.md, eq. 2]:
//     new logits = pi(l) + sum_c d_c (y_c . l + beta_c),
// pi keeping the retained classes. Naive deletion has no terms at all.
struct LogitFilter {
  ClassSplit split;          // k classes, k' of them retained
  Matrix<double> d;          // terms x k'
  Matrix<double> y;          // terms x k
  std::vector<double> beta;  // terms

  // Rows of logits, or of stored logit means, to rows of k' new ones. Float logits are filtered in
  // double and rounded once.
  [[nodiscard]] Matrix<double> apply(MatrixView<const double> logits) const;
  [[nodiscard]] Matrix<float> apply(MatrixView<const float> logits) const;
  // F (k' x k), formed for people who want to see it.
  [[nodiscard]] Matrix<double> matrix() const;
};

// The new last layer, in the layout and type of the old one; scales are the old ones too.
struct NewHead {
  Tensor weights;
  std::optional<Tensor> bias;
  bool bias_added = false;  // the old head had none
};

// A filtration as a change of the last layer [docs/method.md, eq. 3]:
//     W_z = pi W + sum_c d_c u_c^T,   b_z = pi b + sum_c d_c beta_c.
struct HeadFilter {
  ClassSplit split;
  Matrix<double> d;          // terms x k'
  Matrix<double> u;          // terms x features
  std::vector<double> beta;  // terms

  // Computed in double, rounded once to the head's type. Reads the head once from top to bottom.
  [[nodiscard]] NewHead apply(const HeadView& head) const;
};

// Weights that average over the retained classes: 1/k' on R, 0 on C.
[[nodiscard]] Matrix<double> average_of(const ClassSplit& split);

// The retained logits minus their mean, after the filter: (I - 11^T/k') F, so that the new rows sum
// to zero, and the new biases [docs/method.md, eq. 6]. Terms that move all logits alike are gone.
[[nodiscard]] LogitFilter centred(const LogitFilter& filter);
[[nodiscard]] HeadFilter centred(const HeadFilter& filter, const HeadView& head);

// u_c = W^T y_c, and beta_c gains b . y_c: the filter moves into the layer that makes the logits.
[[nodiscard]] HeadFilter absorb(const LogitFilter& filter, const HeadView& head);

}  // namespace oubli
