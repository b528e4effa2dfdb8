#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace oubli {

// What a shift c of all logits does to a value: adds `times` c to it, multiplies it by
// exp(`times` c), or something else, which is then noted among the non-linear steps.
struct LogitShift {
  enum class Effect { added, factor, shown };
  Effect effect = Effect::added;
  double times = 1;
  [[nodiscard]] bool none() const { return effect != Effect::shown && times == 0; }
  [[nodiscard]] bool adds() const { return effect == Effect::added || none(); }
  [[nodiscard]] bool scales() const { return effect == Effect::factor || none(); }
};

// The effect behind one operation. The functions give nothing if it is of neither kind any more.

// An operation on numbers one by one: Exp, Log, Neg, ...
[[nodiscard]] std::optional<LogitShift> after_function(std::string_view op, LogitShift shift);

// A reduction over `classes` classes and nothing else.
[[nodiscard]] std::optional<LogitShift> after_reduction(std::string_view op, LogitShift shift,
                                                        std::size_t classes);

// Add, Sub, Mul, Div with a constant, which is a single number if it is given.
[[nodiscard]] std::optional<LogitShift> after_constant(std::string_view op, bool constant_first,
                                                       std::optional<double> constant,
                                                       LogitShift shift);

// Add, Sub, Mul, Div of two values.
[[nodiscard]] std::optional<LogitShift> after_pair(std::string_view op, LogitShift a, LogitShift b);

}  // namespace oubli
