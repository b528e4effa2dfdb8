#include "oubli/inversion/invert.h"

#include <algorithm>
#include <cmath>

#include "oubli/base/error.h"

namespace oubli {

GoalValue evaluate(const InversionGoal& goal, std::span<const float> logits) {
  OUBLI_ASSERT(!logits.empty() && (!goal.label || *goal.label < logits.size()));
  GoalValue out;
  out.dlogits.resize(logits.size());
  if (!goal.label && !goal.guess) {
    const auto count = static_cast<double>(logits.size());
    for (std::size_t j = 0; j < logits.size(); ++j) {
      out.value += static_cast<double>(logits[j]) / count;
      out.dlogits[j] = static_cast<float>(1 / count);
    }
    return out;
  }
  // -log softmax of the wanted logit; the guess, if any, is one more term of the sum.
  const double wanted = goal.label ? static_cast<double>(logits[*goal.label]) : *goal.guess;
  double top = static_cast<double>(std::ranges::max(logits));
  if (goal.guess) top = std::max(top, *goal.guess);
  double sum = goal.guess ? std::exp(*goal.guess - top) : 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - top);
  out.value = std::log(sum) + top - wanted;
  for (std::size_t j = 0; j < logits.size(); ++j) {
    const double share = std::exp(static_cast<double>(logits[j]) - top) / sum;
    out.dlogits[j] = static_cast<float>(goal.label && j == *goal.label ? share - 1 : share);
  }
  return out;
}

std::vector<float> invert(const InvertibleModel& model, const InversionGoal& goal,
                          std::span<const float> start, const InversionOptions& options) {
  std::vector<float> image(start.begin(), start.end());
  const auto step = static_cast<float>(options.step_size);
  for (std::size_t i = 0; i < options.steps; ++i) {
    const GoalValue at = evaluate(goal, model.logits(image));
    const std::vector<float> gradient = model.input_gradient(image, at.dlogits);
    OUBLI_ASSERT(gradient.size() == image.size());
    for (std::size_t j = 0; j < image.size(); ++j)
      image[j] = std::clamp(image[j] - step * gradient[j], 0.0F, 1.0F);
  }
  return image;
}

}  // namespace oubli
