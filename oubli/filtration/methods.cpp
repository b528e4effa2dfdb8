#include "oubli/filtration/methods.h"

#include <array>
#include <utility>

#include "oubli/array/tensor.h"
#include "oubli/base/random.h"

namespace oubli {

bool needs_class_means(Method method) {
  return method != Method::naive && method != Method::centre;
}

Matrix<double> target_offsets(const Target& target, std::span<const std::size_t> forget,
                              std::span<const std::size_t> retained, MatrixView<const double> a,
                              std::span<const double> shift) {
  OUBLI_ASSERT(needs_class_means(target.method));
  Matrix<double> d(forget.size(), retained.size());
  if (target.method == Method::custom) {
    if (target.custom.rows() != d.rows() || target.custom.cols() != d.cols())
      fail(ErrorCode::bad_input, "target: {} x {}, wanted {} forgotten x {} retained classes",
           target.custom.rows(), target.custom.cols(), d.rows(), d.cols());
    require_finite(target.custom, "target");
  }
  for (std::size_t n = 0; n < forget.size(); ++n) {
    RandomStream random(target.seed, task_id("randomization target", {target.model, forget[n]}));
    for (std::size_t i = 0; i < retained.size(); ++i) {
      const double pi_a = a(n, retained[i]);
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
