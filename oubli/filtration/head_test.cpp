#include "oubli/filtration/head.h"

#include <gtest/gtest.h>

#include <cmath>

#include "oubli/base/random.h"

namespace oubli {
namespace {

// A head of random numbers as its file might hold it, and the same numbers by (class, feature).
struct StoredHead {
  Tensor weights, bias;
  HeadView view;

  [[nodiscard]] double w(std::size_t j, std::size_t d) const {
    return to_matrix(weights.view("W"))(view.transposed ? d : j, view.transposed ? j : d);
  }
};

StoredHead random_head(bool transposed, bool with_bias) {
  RandomStream random(4, task_id("head"));
  Matrix<double> w(transposed ? 5 : 3, transposed ? 3 : 5);
  for (double& value : w.flat()) value = random.normal();
  std::vector<double> b(3);
  for (double& value : b) value = random.normal();
  StoredHead head{to_tensor<double>(w), to_tensor(b, DType::f64), {}};
  head.view = {head.weights.view("W"), transposed, -0.5, {}, -2};
  if (with_bias) head.view.bias = head.bias.view("b");
  return head;
}

TEST(Head, LogitsAndTheirMagnitudesByDefinition) {
  Matrix<double> x(4, 5);
  RandomStream random(5, task_id("features"));
  for (double& value : x.flat()) value = random.normal();
  for (const bool transposed : {false, true})
    for (const bool with_bias : {false, true}) {
      const StoredHead head = random_head(transposed, with_bias);
      const Matrix<double> logits = logits_of(head.view, x), sizes = magnitudes_of(head.view, x);
      for (std::size_t n = 0; n < 4; ++n)
        for (std::size_t j = 0; j < 3; ++j) {
          const double b = with_bias ? to_vector(head.bias.view("b"))[j] : 0;
          double logit = -2 * b, size = 2 * std::abs(b);
          for (std::size_t d = 0; d < 5; ++d) {
            logit -= 0.5 * head.w(j, d) * x(n, d);
            size += 0.5 * std::abs(head.w(j, d) * x(n, d));
          }
          EXPECT_NEAR(logits(n, j), logit, 1e-14);
          EXPECT_NEAR(sizes(n, j), size, 1e-14);
        }
    }
}

}  // namespace
}  // namespace oubli
