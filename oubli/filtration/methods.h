#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "oubli/array/matrix.h"
#include "oubli/base/class_split.h"
#include "oubli/base/enum_names.h"
#include "oubli/filtration/filter.h"

namespace oubli {

// Where the mean logits of a forgotten class go: the choice of z_c [docs/method.md, section 1].
enum class Method { naive, normalization, explained, randomization, zeroing, centre, custom };

template <>
struct EnumNames<Method> {
  static constexpr std::string_view kWhat = "method";
  static constexpr EnumName<Method> kTable[] = {
      {Method::naive, "naive"},         {Method::normalization, "normalization"},
      {Method::explained, "explained"}, {Method::randomization, "randomization"},
      {Method::zeroing, "zeroing"},     {Method::centre, "centre"},
      {Method::custom, "custom"}};
};
// naive and centre are the same whatever the class means are.
[[nodiscard]] bool needs_class_means(Method method);

// F = pi: the output unit is cut off.
[[nodiscard]] LogitFilter naive_filter(ClassSplit split);
// F = (I - 11^T/k') pi: the retained logits minus their mean.
[[nodiscard]] LogitFilter centre_filter(ClassSplit split);
// One of these, or none if the method needs class means.
[[nodiscard]] std::optional<LogitFilter> filter_without_means(Method method, ClassSplit split);

// rho of method explained unless asked for otherwise: the share of the mean eigenvalue of S from
// which on a direction mostly stays [docs/method.md, section 8].
inline constexpr double kExplain = 0.07;

// What S of method explained is made of: samples if they are at hand, else class means and
// variances of single features.
enum class SpreadFrom { automatic, samples, means };
template <>
struct EnumNames<SpreadFrom> {
  static constexpr std::string_view kWhat = "spread of the retained classes";
  static constexpr EnumName<SpreadFrom> kTable[] = {{SpreadFrom::automatic, "auto"},
                                                    {SpreadFrom::samples, "samples"},
                                                    {SpreadFrom::means, "means"}};
};

struct Target {
  Method method = Method::normalization;
  std::uint64_t seed = 0;             // randomization: z_c depends on (seed, model, c) only
  std::uint64_t model = 0;            // the number of the network in a population, else 0
  MatrixView<const double> custom{};  // custom: z_c as rows, forgotten x retained
  double explain = kExplain;          // explained: rho
  SpreadFrom explain_from = SpreadFrom::automatic;
  // explained: the logits of what retained classes explain of the forgotten means, forgotten x
  // classes; plan_filtration() fills this in
  MatrixView<const double> explained{};
};

// The mean of one row of k logits over the retained classes.
[[nodiscard]] double retained_mean(std::span<const double> logits, const ClassSplit& split);

// d_c = z_c - pi(a_c) as rows, forgotten x retained, for every method that needs class means.
//   a: the mean logits of the forgotten classes, forgotten x classes
//   shift: normalization's s_c, one per forgotten class [docs/method.md, eq. 4]
[[nodiscard]] Matrix<double> target_offsets(const Target& target, const ClassSplit& split,
                                            MatrixView<const double> a,
                                            std::span<const double> shift);

}  // namespace oubli
