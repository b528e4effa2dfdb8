#include "oubli/filtration/methods.h"

#include <array>
#include <utility>

#include "oubli/array/tensor.h"
#include "oubli/base/random.h"

namespace oubli {

bool needs_class_means(Method method) {
  return method != Method::naive && method != Method::centre;
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
        default:
          d(n, i) = -pi_a;
          break;  // zeroing
      }
    }
  }
  return d;
}

}  // namespace oubli
