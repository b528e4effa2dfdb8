#include "oubli/array/labels.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "oubli/base/error.h"

namespace oubli {

namespace {

// `missing`: numbers that stand for no label.
std::vector<std::uint32_t> decoded(const TensorView& tensor, std::size_t classes,
                                   std::span<const double> missing) {
  // Integers up to 2^53 are exact in double; anything larger is out of range all the same.
  std::vector<double> values(tensor.count());
  decode(tensor.dtype, tensor.bytes, values);
  std::vector<std::uint32_t> labels(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    const bool none = std::ranges::find(missing, value) != missing.end();
    if (!none && !(value >= 0 && value < static_cast<double>(classes)))
      fail(ErrorCode::bad_input, "{}: label {} at position {}, wanted 0 to {}{}", tensor.what,
           value, i, classes - 1,
           missing.empty()
               ? ""
               : fmt::format(", or {} for one that does not count", fmt::join(missing, " or ")));
    labels[i] = none ? kNoLabel : static_cast<std::uint32_t>(value);
  }
  return labels;
}

bool is_integer(DType type) { return !is_float(type) && type != DType::boolean; }

}  // namespace

std::vector<std::uint32_t> to_labels(const TensorView& tensor, std::size_t classes) {
  const bool column = tensor.rank() == 2 && tensor.shape[1] == 1;
  if (!is_integer(tensor.dtype) || (tensor.rank() != 1 && !column))
    fail(ErrorCode::bad_input, "{}: {}, wanted a vector of integer class labels", tensor.what,
         describe(tensor));
  return decoded(tensor, classes, {});
}

std::vector<std::uint32_t> to_row_labels(const TensorView& tensor, std::size_t classes) {
  if (!is_integer(tensor.dtype) || tensor.rank() == 0)
    fail(ErrorCode::bad_input, "{}: {}, wanted integer class labels", tensor.what,
         describe(tensor));
  static constexpr double kMissing[] = {-100, -1};
  const bool positions =
      std::ranges::count_if(tensor.shape, [](std::size_t extent) { return extent != 1; }) > 1;
  return decoded(tensor, classes, std::span(kMissing).first(positions ? 2 : 1));
}

std::size_t count_unlabelled(const std::vector<std::uint32_t>& labels) {
  return static_cast<std::size_t>(std::ranges::count(labels, kNoLabel));
}

}  // namespace oubli
