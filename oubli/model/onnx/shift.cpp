#include "oubli/model/onnx/shift.h"

#include <algorithm>
#include <cmath>

namespace oubli {

namespace {

using Effect = LogitShift::Effect;

LogitShift with_times(LogitShift shift, double times) {
  shift.times = times;
  return shift;
}

}  // namespace

std::optional<LogitShift> after_function(std::string_view op, LogitShift shift) {
  if (shift.none() || shift.effect == Effect::shown) return shift;
  if (op == "Identity" || op == "Cast" || op == "Expand") return shift;
  if (shift.effect == Effect::added) {
    if (op == "Neg") return with_times(shift, -shift.times);
    if (op == "Exp") return LogitShift{Effect::factor, shift.times};
    return std::nullopt;
  }
  if (op == "Log") return LogitShift{Effect::added, shift.times};
  if (op == "Reciprocal") return with_times(shift, -shift.times);
  if (op == "Sqrt") return with_times(shift, shift.times / 2);
  if (op == "Neg" || op == "Abs" || op == "Relu" || op == "LeakyRelu") return shift;
  return std::nullopt;
}

std::optional<LogitShift> after_reduction(std::string_view op, LogitShift shift,
                                          std::size_t classes) {
  if (shift.none() || shift.effect == Effect::shown) return shift;
  if (op == "ReduceMax" || op == "ReduceMin" || op == "ReduceMean") return shift;
  if (shift.effect == Effect::added) {
    if (op == "ReduceSum") return with_times(shift, shift.times * static_cast<double>(classes));
    if (op == "ReduceLogSumExp") return shift;
    return std::nullopt;
  }
  if (op == "ReduceSum" || op == "ReduceL1" || op == "ReduceL2") return shift;
  return std::nullopt;
}

std::optional<LogitShift> after_constant(std::string_view op, bool constant_first,
                                         std::optional<double> constant, LogitShift shift) {
  if (shift.none() || shift.effect == Effect::shown) return shift;
  const double sign = constant_first ? -1 : 1;
  if (shift.effect == Effect::added) {
    if (op == "Add") return shift;
    if (op == "Sub") return with_times(shift, sign * shift.times);
    if (!constant) return std::nullopt;
    if (op == "Mul") return with_times(shift, shift.times * *constant);
    if (op == "Div" && !constant_first) return with_times(shift, shift.times / *constant);
    return std::nullopt;
  }
  if (op == "Mul") return shift;
  if (op == "Div") return with_times(shift, sign * shift.times);
  return std::nullopt;
}

std::optional<LogitShift> after_pair(std::string_view op, LogitShift a, LogitShift b) {
  if (a.effect == Effect::shown) return a;
  if (b.effect == Effect::shown) return b;
  const double sign = op == "Sub" || op == "Div" ? -1 : 1;
  double times = a.times + sign * b.times;
  if (std::abs(times) <= 1e-9 * std::max(std::abs(a.times), std::abs(b.times))) times = 0;
  if (op == "Add" || op == "Sub") {
    if (a.adds() && b.adds()) return LogitShift{Effect::added, times};
    if (a.scales() && b.scales() && a.times == b.times) return a;
    return std::nullopt;
  }
  if (a.scales() && b.scales()) return LogitShift{Effect::factor, times};
  return std::nullopt;
}

}  // namespace oubli
