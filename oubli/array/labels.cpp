#include "oubli/array/labels.h"

#include <algorithm>

#include "oubli/base/error.h"

namespace oubli {

namespace {

std::vector<std::uint32_t> decoded(const TensorView& tensor, std::size_t classes,
                                   bool may_be_missing) {
  // Integers up to 2^53 are exact in double; anything larger is out of range all the same.
  std::vector<double> values(tensor.count());
  decode(tensor.dtype, tensor.bytes, values);
  std::vector<std::uint32_t> labels(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    const bool missing = may_be_missing && (value == -1 || value == -100);
    if (!missing && !(value >= 0 && value < static_cast<double>(classes)))
      fail(ErrorCode::bad_input, "{}: label {} at position {}, wanted 0 to {}{}", tensor.what,
           value, i, classes - 1,
           may_be_missing ? ", or -1 or -100 for a row that does not count" : "");
    labels[i] = missing ? kNoLabel : static_cast<std::uint32_t>(value);
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
  return decoded(tensor, classes, false);
}

std::vector<std::uint32_t> to_row_labels(const TensorView& tensor, std::size_t classes) {
  if (!is_integer(tensor.dtype) || tensor.rank() == 0)
    fail(ErrorCode::bad_input, "{}: {}, wanted integer class labels", tensor.what,
         describe(tensor));
  return decoded(tensor, classes, true);
}

std::size_t count_unlabelled(const std::vector<std::uint32_t>& labels) {
  return static_cast<std::size_t>(std::ranges::count(labels, kNoLabel));
}

}  // namespace oubli
