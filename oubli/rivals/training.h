#pragma once

#include <vector>

#include "oubli/rivals/rival.h"

namespace oubli {

// Rivals that train.

// Fine-tuning on retained data, for 1/4, 1 and 2 epochs, from the weights as they are, without the
// forgotten outputs.
[[nodiscard]] std::vector<Unlearned> fine_tuning(const RivalInput& input);

// Gradient ascent on the loss of forgotten samples ("NegGrad") [Golatkar, Achille and Soatto,
// "Eternal sunshine of the spotless net", CVPR 2020], a few steps; then the outputs go.
// Transplanted: the original network is taught the ascended one's answers to forgotten samples, and
// its own to retained ones, by a short distillation.
[[nodiscard]] std::vector<Unlearned> gradient_ascent(const RivalInput& input);

// The ascended network, still with all its outputs.
[[nodiscard]] nn::Network ascend(const RivalInput& input, Meter& meter);

// Forgotten samples are given random other labels and trained on, beside as many retained ones
// [Graves, Nagisetty and Ganesh, "Amnesiac machine learning", AAAI 2021].
[[nodiscard]] Unlearned random_labels(const RivalInput& input);
// A label in [0, classes) for each image of the set: the new number of a retained class, random
// for forgotten ones.
[[nodiscard]] std::vector<std::uint32_t> labels_with_random(const RivalInput& input);

// From scratch without the classes, for 1, 2 and 3 epochs of the recipe's.
[[nodiscard]] std::vector<Unlearned> short_retraining(const RivalInput& input);

}  // namespace oubli
