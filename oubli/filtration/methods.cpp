#include "oubli/filtration/methods.h"

#include <array>
#include <utility>

#include "oubli/array/tensor.h"
#include "oubli/base/random.h"

namespace oubli {

bool needs_class_means(Method method) {
  return method != Method::naive && method != Method::centre;
}

LogitFilter naive_filter(ClassSplit split) {
  Matrix<double> d(0, split.retained.size()), y(0, split.classes);
  return {std::move(split), std::move(d), std::move(y), {}};
}

LogitFilter centre_filter(ClassSplit split) { return centred(naive_filter(std::move(split))); }

std::optional<LogitFilter> filter_without_means(Method method, ClassSplit split) {
  switch (method) {
    case Method::naive:
      return naive_filter(std::move(split));
    case Method::centre:
      return centre_filter(std::move(split));
    case Method::normalization:
    case Method::explained:
    case Method::randomization:
    case Method::zeroing:
    case Method::custom:
      break;
  }
  return std::nullopt;
}

double retained_mean(std::span<const double> logits, const ClassSplit& split) {
  double sum = 0;
  for (const std::size_t j : split.retained) sum += logits[j];
  return sum / static_cast<double>(split.retained.size());
}

Matrix<double> target_offsets(const Target& target, const ClassSplit& split,
                              MatrixView<const double> a, std::span<const double> shift) {
  OUBLI_ASSERT(needs_class_means(target.method));
  Matrix<double> d(split.forgotten.size(), split.retained.size());
  if (target.method == Method::custom) {
    if (target.custom.rows() != d.rows() || target.custom.cols() != d.cols())
      fail(ErrorCode::bad_input, "target: {} x {}, wanted {} forgotten x {} retained classes",
           target.custom.rows(), target.custom.cols(), d.rows(), d.cols());
    require_finite(target.custom, "target");
  }
  const bool explained = target.method == Method::explained;
  OUBLI_ASSERT(!explained ||
               (target.explained.rows() == d.rows() && target.explained.cols() == split.classes));
  for (std::size_t n = 0; n < d.rows(); ++n) {
    // What the explained logits change, centred, comes on top of normalization's shift.
    const double centres =
        explained ? retained_mean(a.row(n), split) - retained_mean(target.explained.row(n), split)
                  : 0;
    RandomStream random(target.seed,
                        task_id("randomization target", {target.model, split.forgotten[n]}));
    for (std::size_t i = 0; i < d.cols(); ++i) {
      const double pi_a = a(n, split.retained[i]);
      switch (target.method) {
        case Method::normalization:
          d(n, i) = shift[n];
          break;
        case Method::explained:
          d(n, i) = target.explained(n, split.retained[i]) - pi_a + centres + shift[n];
          break;
        case Method::randomization:
          d(n, i) = random.normal() - pi_a;
          break;
        case Method::custom:
          d(n, i) = target.custom(n, i) - pi_a;
          break;
        case Method::zeroing:
          d(n, i) = -pi_a;
          break;
        case Method::naive:
        case Method::centre:
          break;  // no target
      }
    }
  }
  return d;
}

}  // namespace oubli
