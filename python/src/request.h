#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "oubli/array/tensor.h"
#include "python/src/means.h"

namespace oubli::python {

// A deletion request on arrays, in the words of the command line. Nothing here knows Python.
struct ForgetArguments {
  const TensorView* weights = nullptr;
  const TensorView* bias = nullptr;  // may be null, as all below
  bool transposed = false;
  std::string space = "features";
  const TensorView* values = nullptr;
  const TensorView* labels = nullptr;
  std::shared_ptr<Means> means;
  std::vector<std::string> classes;
  std::vector<std::string> class_names;
  std::string method;
  std::string solver;
  const TensorView* target = nullptr;
  std::optional<double> explain;  // method explained: rho
  std::uint64_t seed = 0;
  std::optional<std::size_t> samples;
  bool random_samples = false;
  bool shift_shows = false;  // a non-linear step that is no softmax follows the logits
  bool allow_nonlinear_tail = false;
  bool ignore_accuracy = false;
};

struct Forgotten {
  Tensor weights;
  std::optional<Tensor> bias;
  std::string report;            // JSON, as of `oubli forget --dry-run --json`
  std::string text;              // for people
  std::shared_ptr<Means> means;  // of the retained classes, if means were used
  std::vector<std::size_t> retained;
};

[[nodiscard]] Forgotten forget(const ForgetArguments& given, const std::stop_token& stop);

[[nodiscard]] std::string digest_of_head(const TensorView& weights, const TensorView* bias,
                                         bool transposed);

}  // namespace oubli::python
