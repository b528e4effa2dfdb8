#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/array/tensor.h"
#include "oubli/base/class_split.h"
#include "oubli/filtration/calibration.h"
#include "oubli/filtration/head.h"
#include "oubli/filtration/methods.h"

namespace oubli {

// Below so many samples per retained class, on average, S is noise [docs/method.md, section 8].
inline constexpr std::size_t kSamplesToExplain = 10;

// Method explained, carried out: where the forgotten means go before they are centred, and what S
// was made of, for people and receipts.
struct Explanation {
  Matrix<double> logits;  // W (P (m_c - m_R) + m_R) + b, forgotten x classes; empty if too_few
  double rho = 0;
  SpreadFrom from = SpreadFrom::samples;
  std::size_t rows = 0;      // RetainedSpread::rows()
  std::vector<double> kept;  // per forgotten class: |P v| / |v| of v = m_c - m_R
  std::string too_few;       // why it could not be done; empty if it could
};
// Of `target`, rho and what S is to be made of. Error{usage} if rho is not between 1e-3 and 1e3, or
// the means are of logits: those do not tell which directions of the features retained data use.
// Error{missing} if samples, or variances, were asked for and are not there.
[[nodiscard]] Explanation explain_means(const HeadView& head, const Calibration& calibration,
                                        const ClassSplit& split, const Target& target);
// Error{usage} unless a share is between 1e-3 and 1e3.
void check_share(double rho);

// The mean of some rows, such as m_R: the unweighted mean of the retained class means. Ascending.
[[nodiscard]] std::vector<double> rows_mean(const TensorView& matrix,
                                            std::span<const std::size_t> rows);

}  // namespace oubli
