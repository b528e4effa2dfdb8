#pragma once

#include <string_view>

#include "oubli/array/matrix.h"
#include "oubli/base/enum_names.h"

namespace oubli {

// What an attacker gets to see of a model's answer.
enum class Observer { logits, probabilities, label };

template <>
struct EnumNames<Observer> {
  static constexpr std::string_view kWhat = "observer";
  static constexpr EnumName<Observer> kTable[] = {{Observer::logits, "logits"},
                                                  {Observer::probabilities, "probabilities"},
                                                  {Observer::label, "label"}};
};

// Turns rows of logits, in place, into what `observer` sees: the logits themselves; the logits
// minus their mean, which hold the same information as the probabilities; or 1 for the largest
// logit (the first of equal ones) and 0 elsewhere.
void observe(Observer observer, MatrixView<float> logits);

}  // namespace oubli
