#include "oubli/filtration/mean_identity.h"

#include <algorithm>
#include <cmath>

#include "oubli/array/row_blocks.h"

namespace oubli {
namespace {

constexpr std::size_t kLogitsAtOnce = std::size_t{1} << 20;

std::vector<std::size_t> classes_to_check(const ClassSplit& split, std::size_t limit) {
  std::vector<std::size_t> chosen = split.forgotten;
  const std::size_t step = std::max<std::size_t>(1, (split.retained.size() + limit - 1) / limit);
  for (std::size_t i = 0; i < split.retained.size(); i += step) chosen.push_back(split.retained[i]);
  std::ranges::sort(chosen);
  return chosen;
}

// The classes `chosen`, at once.
void check_some(const HeadView& old_head, const HeadView& new_head, const HeadFilter& filter,
                const TensorView& feature_means, std::span<const std::size_t> chosen,
                MeanIdentity& result) {
  const Matrix<double> m = pick_rows(feature_means, chosen);
  const Matrix<double> before = logits_of(old_head, m);
  const Matrix<double> after = logits_of(new_head, m);
  const Matrix<double> magnitude = magnitudes_of(new_head, m);
  const Matrix<double> storage = storage_errors_of(new_head, m, magnitude);
  // Both sides are sums of some features + terms products, evaluated in double.
  const double arithmetic =
      static_cast<double>(m.cols() + filter.beta.size() + 4) * unit_roundoff(DType::f64);
  for (std::size_t n = 0; n < chosen.size(); ++n) {
    std::vector<double> g = filter.beta, g_magnitude(g.size());
    for (std::size_t t = 0; t < g.size(); ++t) {
      g_magnitude[t] = std::abs(filter.beta[t]);
      for (std::size_t f = 0; f < m.cols(); ++f) {
        g[t] += filter.u(t, f) * m(n, f);
        g_magnitude[t] += std::abs(filter.u(t, f) * m(n, f));
      }
    }
    for (std::size_t i = 0; i < filter.split.retained.size(); ++i) {
      double expected = before(n, filter.split.retained[i]);
      // pi |W| |m| is at most |W_z| |m| + |d| |u| |m|.
      double expected_magnitude = magnitude(n, i);
      for (std::size_t t = 0; t < g.size(); ++t) {
        expected += filter.d(t, i) * g[t];
        expected_magnitude += 2 * std::abs(filter.d(t, i)) * g_magnitude[t];
      }
      const double error = std::abs(after(n, i) - expected);
      result.largest_error = std::max(result.largest_error, error);
      const double bound = 2 * storage(n, i) + arithmetic * (magnitude(n, i) + expected_magnitude);
      const double ratio = error == 0 ? 0 : error / bound;
      if (ratio > result.largest_ratio) {
        result.largest_ratio = ratio;
        result.worst_class = chosen[n];
      }
    }
  }
}

}  // namespace

MeanIdentity check_mean_identity(const HeadView& old_head, const HeadView& new_head,
                                 const HeadFilter& filter, const TensorView& feature_means,
                                 std::size_t limit) {
  const std::vector<std::size_t> chosen = classes_to_check(filter.split, limit);
  MeanIdentity result{.classes_checked = chosen.size()};
  // Some megabytes of logits at a time, however many classes there are.
  const std::size_t at_once = std::max<std::size_t>(1, kLogitsAtOnce / old_head.classes());
  for (std::size_t first = 0; first < chosen.size(); first += at_once)
    check_some(old_head, new_head, filter, feature_means,
               std::span(chosen).subspan(first, std::min(at_once, chosen.size() - first)), result);
  return result;
}

}  // namespace oubli
