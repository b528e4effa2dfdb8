#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/array/tensor.h"

namespace oubli {

// Several models and what each gives for the same samples: logits (one column per class it knows)
// or features. A source, not a copy: rows are read when they are needed.
struct Population {
  std::string name;  // for messages: "seen.npy"
  std::size_t models = 0;
  std::size_t samples = 0;
  std::size_t columns = 0;
  // Row i of `out` (samples.size() x columns) = what model `model` gives for sample samples[i].
  // Called from several threads at once; may throw Error.
  std::function<void(std::size_t model, std::span<const std::uint32_t> samples,
                     MatrixView<float> out)>
      read;
  std::vector<std::string> files = {};  // for messages, one per model; empty: all are in one

  // "seen-3.npy", or "seen.npy: model 3"
  [[nodiscard]] std::string model_name(std::size_t model) const;
};

// models x samples x columns, any float type. The tensor's bytes must outlive the population.
[[nodiscard]] Population population_of(const TensorView& tensor);
// One tensor, samples x columns, per model.
[[nodiscard]] Population population_of(std::vector<TensorView> tensors, const std::string& name);

// Refuses logits that still have a column for every class, the forgotten ones included; `evidence`
// says how that is known.
[[noreturn]] void fail_column_per_class(const Population& logits, const std::string& evidence);

// Larger numbers are refused. Their squares are far from float's limit, so that distances, and
// logits minus their mean, stay finite; and the logistic attack, whose Hessian holds squares in
// double, is not left blind by one of this size among numbers around 1.
inline constexpr float kLargestValue = 1e9F;

// Reads rows and refuses NaN, infinities and numbers beyond kLargestValue, naming model, sample and
// column.
void read_finite(const Population& population, std::size_t model,
                 std::span<const std::uint32_t> samples, MatrixView<float> out);

}  // namespace oubli
