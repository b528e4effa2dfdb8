#pragma once

#include <cstddef>
#include <span>

#include "oubli/filtration/filter.h"
#include "oubli/filtration/head.h"
#include "oubli/filtration/solver_choice.h"

namespace oubli {

// The self-check [docs/method.md, eq. 5]: what the new head does to every class mean must be what
// the filter says, to within the rounding of the stored type:
//     W_z m_j + b_z = pi(W m_j + b) + sum_c d_c (u_c . m_j + beta_c).
struct MeanIdentity {
  std::size_t classes_checked = 0;
  double largest_error = 0;  // |left - right|
  // Of an error to its bound, 2 eps (|W_z| |m_j| + |b_z|) for the storage plus what summation in
  // double may add; at most 1 is sound.
  double largest_ratio = 0;
  std::size_t worst_class = 0;
  [[nodiscard]] bool holds() const { return largest_ratio <= 1; }
};

// Checks all forgotten classes and as many retained ones, evenly spread, as `limit` allows.
// feature_means: classes x features of the old head.
[[nodiscard]] MeanIdentity check_mean_identity(const HeadView& old_head, const HeadView& new_head,
                                               const HeadFilter& filter,
                                               const TensorView& feature_means,
                                               std::size_t limit = 256);

}  // namespace oubli
