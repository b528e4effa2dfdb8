#pragma once

#include <string>
#include <string_view>

#include "oubli/array/matrix.h"

namespace oubli {

// What an attacker gets to see of a model's answer.
enum class Observer { logits, probabilities, label };

inline constexpr Observer kAllObservers[] = {Observer::logits, Observer::probabilities,
                                             Observer::label};

// "logits", "probabilities", "label"
[[nodiscard]] std::string_view name_of(Observer observer);
// Error{usage} with the nearest names if there is none.
[[nodiscard]] Observer observer_of(const std::string& name);

// Turns rows of logits, in place, into what `observer` sees: the logits themselves; the logits
// minus their mean, which hold the same information as the probabilities; or 1 for the largest
// logit (the first of equal ones) and 0 elsewhere.
void observe(Observer observer, MatrixView<float> logits);

}  // namespace oubli
