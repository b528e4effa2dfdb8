#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace oubli {

// What model inversion needs of a model: its logits for an image, and the gradient with respect to
// the image of a function whose gradient with respect to the logits is given.
struct InvertibleModel {
  std::function<std::vector<float>(std::span<const float> image)> logits;
  std::function<std::vector<float>(std::span<const float> image, std::span<const float> dlogits)>
      input_gradient;
};

// What the attacker descends.
struct InversionGoal {
  // The cross-entropy to output `label` of a whole model.
  static InversionGoal output(std::size_t label) { return {label, std::nullopt}; }
  // The same for a model that lost an output: the attacker puts a constant logit where it was.
  // (Where it was does not matter, softmax being symmetric.)
  static InversionGoal output(std::size_t label, double guess) { return {label, guess}; }
  // The cross-entropy to that constant: the class whose output was cut.
  static InversionGoal cut_output(double guess) { return {std::nullopt, guess}; }
  // The ghost logit: the mean of the retained logits, whose negative stands in for the one that was
  // cut. Needs no guess.
  static InversionGoal ghost() { return {std::nullopt, std::nullopt}; }

  std::optional<std::size_t> label;
  std::optional<double> guess;
};

struct InversionOptions {
  std::size_t steps = 50;
  double step_size = 0.3;  // times the gradient
};

// [Fredrikson et al. 2015, as the paper's section on model inversion uses it] Gradient descent on
// the input, clipped to [0, 1] after every step. Returns the last image.
[[nodiscard]] std::vector<float> invert(const InvertibleModel& model, const InversionGoal& goal,
                                        std::span<const float> start,
                                        const InversionOptions& options);

// The function the attacker descends, at these logits, and its gradient with respect to them.
struct GoalValue {
  double value = 0;
  std::vector<float> dlogits;
};
[[nodiscard]] GoalValue evaluate(const InversionGoal& goal, std::span<const float> logits);

}  // namespace oubli
