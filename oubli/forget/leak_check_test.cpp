#include "oubli/forget/leak_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "oubli/audit/recognition.h"
#include "oubli/base/random.h"

namespace oubli {
namespace {

Matrix<float> normals(std::size_t rows, std::size_t cols, std::uint64_t stream) {
  RandomStream random(1, task_id("leak check test", {stream}));
  Matrix<float> values(rows, cols);
  for (float& value : values.flat()) value = static_cast<float>(random.normal());
  return values;
}

// A head of so many classes that no read-out is fitted, with samples of its first four classes.
struct Case {
  Case(std::size_t classes, std::size_t samples)
      : weights(normals(classes, 3, 0)), features(normals(samples, 3, 1)) {
    head.weights = {DType::f32, {classes, 3}, std::as_bytes(weights.flat()), "W"};
    for (std::size_t i = 0; i < samples; ++i) {
      labels.push_back(static_cast<std::uint32_t>(i % 4));
      features(i, 0) += 2 * static_cast<float>(i % 4);
    }
  }
  CalibrationData data(Space space, const Matrix<float>& values) const {
    CalibrationData data;
    data.space = space;
    data.values = {DType::f32, {values.rows(), values.cols()}, std::as_bytes(values.flat()), "x"};
    data.labels = labels;
    return data;
  }

  Matrix<float> weights, features;
  std::vector<std::uint32_t> labels;
  HeadView head;
};

// From the logits of all samples and all classes, in double.
double ghost_of(const Matrix<double>& logits, std::span<const std::size_t> classes,
                std::span<const std::uint32_t> labels) {
  std::vector<double> scores;
  std::vector<std::uint8_t> positive;
  for (std::size_t i = 0; i < logits.rows(); ++i) {
    double sum = 0;
    for (const std::size_t j : classes) sum -= logits(i, j);
    scores.push_back(sum);
    positive.push_back(labels[i] == 1 ? 1 : 0);
  }
  const double area = area_under_curve(scores, positive);
  return std::max(area, 1 - area);
}

TEST(LeakCheck, MeanLogitsGiveTheGhostOfAllLogits) {
  const std::size_t classes = 900;
  const std::vector<std::size_t> forget{1};
  const Case model(classes, 400);
  Matrix<double> x(400, 3);
  std::ranges::copy(model.features.flat(), x.flat().begin());
  const Matrix<double> before = logits_of(model.head, x);
  std::vector<std::size_t> all(classes - 1);
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (const Method method : {Method::naive, Method::centre}) {
    const FiltrationPlan filtration =
        plan_filtration(model.head, std::nullopt, forget, {.method = method});
    const NewHead stored = filtration.filter.apply(model.head);
    HeadView new_head = model.head;
    new_head.weights = stored.weights.view("new W");
    if (stored.bias) new_head.bias = stored.bias->view("new b");
    const Matrix<double> after = logits_of(new_head, x);
    Matrix<float> logits(400, classes);
    std::ranges::transform(before.flat(), logits.flat().begin(),
                           [](double v) { return static_cast<float>(v); });
    for (const Space space : {Space::features, Space::logits}) {
      const LeakCheck check =
          check_leaks(model.head, new_head, filtration,
                      model.data(space, space == Space::features ? model.features : logits), 0);
      ASSERT_EQ(check.rows.size(), 1U);
      EXPECT_FALSE(check.rows[0].readout.has_value());
      EXPECT_EQ(check.samples, 400U);
      EXPECT_EQ(check.label_samples, 400U);
      EXPECT_EQ(check.label_flips, 0U);
      // A rounding can swap a pair of samples, of 100 x 300.
      const double naive = ghost_of(before, filtration.filter.split.retained, model.labels);
      EXPECT_NEAR(*check.rows[0].ghost_naive, naive, 2.0 / 30000);
      EXPECT_GT(naive, 0.6);
      if (method == Method::naive)
        EXPECT_NEAR(*check.rows[0].ghost, ghost_of(after, all, model.labels), 2.0 / 30000);
      else  // the mean is zero but for rounding, which depends on how it is computed
        EXPECT_LT(*check.rows[0].ghost, naive);
    }
  }
}

// 3300 x 3300 multiplications per sample: labels are compared on 200 samples, and that is said.
TEST(LeakCheck, SaysOnHowManySamplesLabelsWereCompared) {
  const Case model(3300, 250);
  const Matrix<float> logits = normals(250, 3300, 2);
  const std::vector<std::size_t> forget{1};
  const FiltrationPlan filtration =
      plan_filtration(model.head, std::nullopt, forget, {.method = Method::centre});
  const NewHead stored = filtration.filter.apply(model.head);
  HeadView new_head = model.head;
  new_head.weights = stored.weights.view("new W");
  const LeakCheck check =
      check_leaks(model.head, new_head, filtration, model.data(Space::logits, logits), 0);
  EXPECT_EQ(check.samples, 250U);
  EXPECT_EQ(check.label_samples, 200U);
}

// More samples than are copied at a time.
TEST(LeakCheck, BlocksOfSamplesGiveTheLogitsOfAll) {
  constexpr std::size_t kSamples = 20001;
  const std::vector<std::size_t> forget{1};
  const Case model(4, kSamples);
  const FiltrationPlan filtration =
      plan_filtration(model.head, std::nullopt, forget, {.method = Method::naive});
  const NewHead made = filtration.filter.apply(model.head);
  const HeadView head{.weights = made.weights.view("new")};
  const LeakCheck check =
      check_leaks(model.head, head, filtration, model.data(Space::features, model.features), 3);
  const Matrix<float> logits = logits_of(head, model.features.view(), 1);
  const Recognition whole = measure_recognition(logits.view(), model.labels, forget, 3).at(0);
  EXPECT_EQ(check.samples, kSamples);
  EXPECT_EQ(check.label_flips, 0u);
  EXPECT_EQ(check.rows.at(0).ghost, whole.ghost);
  EXPECT_EQ(check.rows.at(0).readout, whole.readout);
  EXPECT_EQ(check.rows.at(0).readout_naive, whole.readout);
}

}  // namespace
}  // namespace oubli
