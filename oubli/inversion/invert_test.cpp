#include "oubli/inversion/invert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace oubli {
namespace {

using ::testing::Each;
using ::testing::FloatEq;

// dlogits against central differences in double; logits are floats, so the step must be large.
void expect_gradient(const InversionGoal& goal, std::vector<float> logits) {
  const GoalValue at = evaluate(goal, logits);
  for (std::size_t j = 0; j < logits.size(); ++j) {
    constexpr float kStep = 1.0F / 1024;  // exact in float; error O(step^2) = 1e-6
    const float here = logits[j];
    logits[j] = here + kStep;
    const double above = evaluate(goal, logits).value;
    logits[j] = here - kStep;
    const double below = evaluate(goal, logits).value;
    logits[j] = here;
    EXPECT_NEAR(static_cast<double>(at.dlogits[j]), (above - below) / (2.0 / 1024), 2e-6) << j;
  }
}

TEST(Evaluate, GradientsAgreeWithFiniteDifferences) {
  const std::vector<float> logits{0.5F, -1.25F, 2.0F};
  expect_gradient(InversionGoal::output(0), logits);
  expect_gradient(InversionGoal::output(2), logits);
  expect_gradient(InversionGoal::output(2, 1), logits);
  expect_gradient(InversionGoal::cut_output(1), logits);
  expect_gradient(InversionGoal::ghost(), logits);
}

TEST(Evaluate, ValuesByHand) {
  const std::vector<float> logits{0, 0, 0};
  EXPECT_NEAR(evaluate(InversionGoal::output(1), logits).value, std::log(3.0), 1e-12);
  EXPECT_NEAR(evaluate(InversionGoal::cut_output(0), logits).value, std::log(4.0), 1e-12);
  EXPECT_NEAR(evaluate(InversionGoal::output(1, 0), logits).value, std::log(4.0), 1e-12);
  EXPECT_NEAR(evaluate(InversionGoal::ghost(), std::vector<float>{1, 2, 6}).value, 3, 1e-12);
  // No overflow where exp would.
  EXPECT_NEAR(evaluate(InversionGoal::output(0), std::vector<float>{1000, 0}).value, 0, 1e-12);
  EXPECT_NEAR(evaluate(InversionGoal::cut_output(1), std::vector<float>{-1000}).value, 0, 1e-12);
}

// Logits x and -x of a one-pixel image.
InvertibleModel opposite() {
  return {[](std::span<const float> image) {
            return std::vector<float>{image[0], -image[0]};
          },
          [](std::span<const float>, std::span<const float> d) {
            return std::vector<float>{d[0] - d[1]};
          }};
}

TEST(Invert, OneStepIsTheGradientTimesItsSize) {
  // At 0.5: d/dx [log(e^x + e^-x) - x] = tanh(0.5) - 1.
  const auto image = invert(opposite(), InversionGoal::output(0), std::vector<float>{0.5F},
                            {.steps = 1, .step_size = 0.3});
  EXPECT_THAT(image, Each(FloatEq(0.5F - 0.3F * (std::tanh(0.5F) - 1))));
}

TEST(Invert, EndsAtTheLimitsOfAnImage) {
  const std::vector<float> grey{0.5F};
  EXPECT_THAT(invert(opposite(), InversionGoal::output(0), grey, {.steps = 500, .step_size = 0.3}),
              Each(FloatEq(1)));
  EXPECT_THAT(invert(opposite(), InversionGoal::output(1), grey, {.steps = 500, .step_size = 0.3}),
              Each(FloatEq(0)));
  // The mean of x and -x is flat: nothing moves.
  EXPECT_THAT(invert(opposite(), InversionGoal::ghost(), grey, {.steps = 50, .step_size = 0.3}),
              Each(FloatEq(0.5F)));
}

}  // namespace
}  // namespace oubli
