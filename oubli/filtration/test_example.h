#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "oubli/base/random.h"
#include "oubli/filtration/class_means.h"
#include "oubli/filtration/filtration.h"

namespace oubli {

using Classes = std::vector<std::size_t>;

// A head and data of the kind it might see: Gaussian classes around random means.
struct Example {
  Matrix<double> W;       // classes x features
  std::vector<double> b;  // empty: none
  Matrix<float> x;        // features of the data
  std::vector<std::uint32_t> labels;

  [[nodiscard]] HeadView head() const {
    HeadView view{tensor_view(W.view(), "W"), false, 1, {}, 1};
    if (!b.empty())
      view.bias = TensorView{DType::f64, {b.size()}, std::as_bytes(std::span(b)), "b"};
    return view;
  }
  [[nodiscard]] ClassMeans means() const {
    ClassMeans means(W.rows(), W.cols());
    means.add(x.view(), labels);
    return means;
  }
  [[nodiscard]] Matrix<double> logits() const {
    Matrix<double> features(x.rows(), x.cols());
    std::ranges::copy(x.flat(), features.flat().begin());
    return logits_of(head(), features);
  }
};

inline Example make_example(std::size_t classes, std::size_t features, bool bias,
                            std::uint64_t seed = 1, std::size_t per_class = 30) {
  RandomStream random(seed, task_id("example"));
  Example e{
      Matrix<double>(classes, features), {}, Matrix<float>(classes * per_class, features), {}};
  Matrix<double> m(classes, features);
  for (double& value : m.flat()) value = random.normal();
  for (std::size_t i = 0; i < e.x.rows(); ++i) {
    e.labels.push_back(static_cast<std::uint32_t>(i % classes));
    for (std::size_t d = 0; d < features; ++d)
      e.x(i, d) = static_cast<float>(m(i % classes, d) + 0.5 * random.normal());
  }
  for (std::size_t j = 0; j < classes; ++j)
    for (std::size_t d = 0; d < features; ++d) e.W(j, d) = m(j, d) + 0.3 * random.normal();
  for (std::size_t j = 0; bias && j < classes; ++j) e.b.push_back(random.normal());
  return e;
}

// Softmax regression from zero by plain SGD with weight decay: the head whose rows sum to zero.
inline Example sum_zero_example(std::size_t classes, std::size_t features) {
  Example e = make_example(classes, features, true, 3);
  std::ranges::fill(e.W.flat(), 0.0);
  std::ranges::fill(e.b, 0.0);
  for (int epoch = 0; epoch < 20; ++epoch)
    for (std::size_t i = 0; i < e.x.rows(); ++i) {
      std::vector<double> p(classes);
      for (std::size_t j = 0; j < classes; ++j) {
        p[j] = e.b[j];
        for (std::size_t d = 0; d < features; ++d) p[j] += e.W(j, d) * double{e.x(i, d)};
      }
      const double top = *std::ranges::max_element(p);
      for (double& value : p) value = std::exp(value - top);
      const double sum = std::accumulate(p.begin(), p.end(), 0.0);
      for (std::size_t j = 0; j < classes; ++j) {
        const double gradient = p[j] / sum - (e.labels[i] == j ? 1 : 0);
        for (std::size_t d = 0; d < features; ++d)
          e.W(j, d) -= 0.05 * (gradient * double{e.x(i, d)} + 1e-4 * e.W(j, d));
        e.b[j] -= 0.05 * gradient;
      }
    }
  return e;
}

inline Calibration feature_calibration(const ClassMeans& means) {
  return {.space = Space::features,
          .means = tensor_view(means.means().view(), "means"),
          .within_variance = means.within_variance()};
}

inline HeadView view_of(const NewHead& head, const HeadView& old) {
  HeadView view{head.weights.view("W_z"), old.transposed, old.weight_scale, {}, old.bias_scale};
  if (head.bias) view.bias = head.bias->view("b_z");
  return view;
}

inline Matrix<double> logits_after(const Example& e, const NewHead& head) {
  Matrix<double> features(e.x.rows(), e.x.cols());
  std::ranges::copy(e.x.flat(), features.flat().begin());
  return logits_of(view_of(head, e.head()), features);
}

inline void expect_near(const Matrix<double>& a, const Matrix<double>& b, double tolerance) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.cols(), b.cols());
  double largest = 0;
  for (std::size_t i = 0; i < a.flat().size(); ++i)
    largest = std::max(largest, std::abs(a.flat()[i] - b.flat()[i]));
  EXPECT_LE(largest, tolerance);
}

}  // namespace oubli
