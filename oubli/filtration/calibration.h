#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "oubli/array/tensor.h"
#include "oubli/base/enum_names.h"

namespace oubli {

// What the class means are means of.
enum class Space { logits, features };
template <>
struct EnumNames<Space> {
  static constexpr std::string_view kWhat = "space";
  static constexpr EnumName<Space> kTable[] = {{Space::logits, "logits"},
                                               {Space::features, "features"}};
};

// What is known of the classes. Rows of `means` are classes.
struct Calibration {
  Space space = Space::features;
  TensorView means;  // classes x (classes or features), any float type
  double within_variance = std::numeric_limits<double>::quiet_NaN();  // ClassMeans::within_variance
  // Data (of `space`), if at hand, with its labels: the gain is measured on every so many of its
  // rows, else estimated as |u| sigma.
  TensorView sample{};
  std::span<const std::uint32_t> sample_labels{};
  std::size_t sample_step = 1;
  // What a means file keeps beside the means, if it does: samples per class, and per class and
  // feature the sum of squared distances from the class's mean.
  std::span<const std::uint64_t> counts{};
  TensorView feature_scatter{};
};

}  // namespace oubli
