#include "oubli/filtration/explained.h"

#include <cmath>
#include <optional>

#include "oubli/array/row_blocks.h"
#include "oubli/filtration/eigen.h"
#include "oubli/filtration/spread.h"

namespace oubli {
namespace {

// Whether S is to be made of samples. Error{missing} if it cannot be made of what was asked for.
bool from_samples(const Calibration& calibration, SpreadFrom wanted) {
  const bool samples = calibration.sample.rank() == 2;
  const bool variances = calibration.feature_scatter.rank() == 2;
  if (wanted == SpreadFrom::samples && !samples)
    fail(ErrorCode::missing,
         "method explained: made from data, which must be given again: means do not hold enough");
  if (wanted == SpreadFrom::means && !variances)
    fail(ErrorCode::missing,
         "method explained: made from the variances of a means file, which must be given again");
  return wanted == SpreadFrom::samples || (wanted == SpreadFrom::automatic && samples);
}

// None, and the reason in `too_few`, if there is too little to go by.
std::optional<RetainedSpread> spread_of(const Calibration& calibration, const ClassSplit& split,
                                        std::span<const double> m_R, Explanation& result) {
  std::uint64_t samples = 0;
  const bool by_samples = result.from == SpreadFrom::samples;
  if (!by_samples && calibration.feature_scatter.rank() != 2) {
    result.too_few =
        "it needs features, or a means file with the variances of single features, which 'oubli "
        "means' writes";
    return std::nullopt;
  }
  if (by_samples)
    for (const std::uint32_t label : calibration.sample_labels)
      samples += split.forgets(label) ? 0U : 1U;
  else
    for (const std::size_t j : split.retained) samples += calibration.counts[j];
  if (samples < kSamplesToExplain * split.retained.size()) {
    result.too_few = fmt::format(
        "{} samples of {} retained classes do not tell which directions of the features those use; "
        "it needs {} per class",
        samples, split.retained.size(), kSamplesToExplain);
    return std::nullopt;
  }
  if (by_samples)
    return RetainedSpread::of_samples(calibration.sample, calibration.sample_labels, split.retained,
                                      m_R);
  return RetainedSpread::of_means(calibration.means, calibration.counts,
                                  calibration.feature_scatter, split.retained, m_R);
}

}  // namespace

void check_share(double rho) {
  if (!(rho >= 1e-3 && rho <= 1e3))
    fail(ErrorCode::usage, "--explain {}: wanted a number from 0.001 to 1000", rho);
}

std::vector<double> rows_mean(const TensorView& matrix, std::span<const std::size_t> rows) {
  std::vector<double> mean(matrix.shape[1]);
  std::size_t next = 0;
  for_each_row_block(matrix, [&](std::size_t first, MatrixView<const double> block) {
    for (; next < rows.size() && rows[next] < first + block.rows(); ++next)
      for (std::size_t d = 0; d < mean.size(); ++d) mean[d] += block(rows[next] - first, d);
  });
  for (double& value : mean) value /= static_cast<double>(rows.size());
  return mean;
}

Explanation explain_means(const HeadView& head, const Calibration& calibration,
                          const ClassSplit& split, const Target& target) {
  check_share(target.explain);
  if (calibration.space == Space::logits)
    fail(ErrorCode::usage,
         "method explained needs features, or means of features: logits do not tell which "
         "directions retained data use");
  Explanation result{.logits = {}, .rho = target.explain, .kept = {}, .too_few = {}};
  result.from =
      from_samples(calibration, target.explain_from) ? SpreadFrom::samples : SpreadFrom::means;
  const std::vector<double> m_R = rows_mean(calibration.means, split.retained);
  const auto spread = spread_of(calibration, split, m_R, result);
  if (!spread) return result;
  result.rows = spread->rows();
  Matrix<double> v = pick_rows(calibration.means, split.forgotten);
  eigen(v.view()).rowwise() -= eigen_row(m_R);
  Matrix<double> explained = spread->explain(v, result.rho);
  for (std::size_t n = 0; n < v.rows(); ++n) {
    const auto row = eigen_index(n);
    const double length = eigen(v.view()).row(row).norm();
    result.kept.push_back(length > 0 ? eigen(explained.view()).row(row).norm() / length : 1);
  }
  eigen(explained.view()).rowwise() += eigen_row(m_R);
  result.logits = logits_of(head, explained);
  return result;
}

}  // namespace oubli
