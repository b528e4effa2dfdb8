#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oubli/cli/model_options.h"

namespace oubli::cli {

// The options of a deletion request: a model, what is known about it, which classes, how.
struct RequestOptions : ModelOptions {
  std::vector<std::string> classes;
  std::string method = "normalization";
  std::string solver = "auto";
  std::string target;
  std::optional<double> explain;
  std::string note;
  bool allow_nonlinear_tail = false;
  bool ignore_accuracy = false;
  bool keep_seed = false;
  bool takes_curvature = false;  // method curvature, which is no filtration, may be asked for

  void add_request(Command& command);
};

// Error{usage} if the words make no request for this model.
[[nodiscard]] bool asks_for_curvature(const RequestOptions& options);
[[nodiscard]] ForgetRequest make_request(const RequestOptions& options, const LoadedModel& loaded);

// The same as far as it needs no model: before anything takes time.
void check_words(const RequestOptions& options);

// z of method custom: one row of target logits per forgotten class.
[[nodiscard]] Matrix<double> target_in(const TensorView& given, std::size_t forgotten,
                                       std::size_t retained);
[[nodiscard]] Matrix<double> read_target(const std::string& where, std::size_t forgotten,
                                         std::size_t retained);

}  // namespace oubli::cli
