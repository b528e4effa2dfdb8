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
    case Method::randomization:
    case Method::zeroing:
    case Method::custom:
      break;
  }
  return std::nullopt;
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
  for (std::size_t n = 0; n < d.rows(); ++n) {
    RandomStream random(target.seed,
                        task_id("randomization target", {target.model, split.forgotten[n]}));
    for (std::size_t i = 0; i < d.cols(); ++i) {
      const double pi_a = a(n, split.retained[i]);
      switch (target.method) {
        case Method::normalization:
          d(n, i) = shift[n];
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
