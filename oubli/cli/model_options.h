#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "oubli/forget/forget.h"
#include "oubli/model/model_file.h"

namespace CLI {
class App;
}  // namespace CLI

namespace oubli::cli {

// The options by which means, forget, inspect and verify name a model and what is known about its
// classes.
struct ModelOptions {
  std::string model;
  std::string weights;
  std::optional<std::string> bias;
  bool no_bias = false;
  bool transposed = false;
  bool rows_are_classes = false;
  std::string class_names;
  std::string means;
  std::string features;
  std::string logits;
  std::string labels;
  std::string data;
  std::optional<std::size_t> samples;
  bool random_samples = false;
  std::uint64_t seed = 0;

  void add_head(CLI::App& command);
  void add_data(CLI::App& command);
  void add_means(CLI::App& command);
  [[nodiscard]] bool has_data() const;
};

// Everything that the options name, opened and checked against each other.
struct LoadedModel {
  std::unique_ptr<ModelFile> model;
  ForgetInputs inputs;                   // inputs.model is model.get()
  std::vector<std::string> class_names;  // empty, or one per class
  SampleChoice samples;
};
[[nodiscard]] LoadedModel load(const ModelOptions& options);

}  // namespace oubli::cli
