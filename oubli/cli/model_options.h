#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "oubli/cli/command.h"
#include "oubli/forget/forget.h"
#include "oubli/model/model_file.h"

namespace oubli::cli {

// The options by which means, forget, inspect and verify name a model and what is known about its
// classes.
struct ModelOptions {
  std::string model;
  std::string head;
  std::string weights;
  std::optional<std::string> bias;
  bool no_bias = false;
  bool transposed = false;
  bool rows_are_classes = false;
  bool float_head = false;
  std::string class_names;
  std::string means;
  std::string features;
  std::string logits;
  std::string labels;
  std::string data;
  std::optional<std::size_t> samples;
  bool random_samples = false;
  std::uint64_t seed = 0;
  RunOptions run;
  std::string runtime;
  std::string run_with;
  std::string layout;
  std::string size;
  bool grey = false;
  bool colour = false;

  void add_head(Command& command);
  void add_data(Command& command);
  void add_means(Command& command);
  // How inputs are made and run; add_run also has what is run in the model's place.
  Command* add_inputs(Command& command);
  void add_run(Command& command);
  [[nodiscard]] bool has_data() const;
  // --data names inputs of the model, not arrays of features or logits.
  [[nodiscard]] bool has_inputs() const;
  // The files and folders that were named, without ":NAME", and what links in a folder of --data
  // lead to; not the files beside a model.
  [[nodiscard]] std::vector<std::filesystem::path> named_files() const;
  // Error{usage} if the words do not make sense.
  [[nodiscard]] RunOptions run_options() const;
  // The first option that says how inputs are made or run; empty: none was given.
  [[nodiscard]] std::string given_run_option() const;
  // Leaves the model alone.
  void drop_data();
};

// What the options say about the head.
[[nodiscard]] HeadChoice head_choice(const ModelOptions& options);
// The text of --class-names, and its number of names for the choice; empty if there is none.
[[nodiscard]] std::string class_names_text(const ModelOptions& options, HeadChoice& choice);

// Everything that the options name, opened and checked against each other.
struct LoadedModel {
  std::unique_ptr<ModelFile> model;
  std::unique_ptr<CalibrationRun> run;   // if there are inputs to run it on
  ForgetInputs inputs;                   // inputs.model is model.get()
  std::vector<std::string> class_names;  // empty, or one per class
  // The new model's names go into a file beside it, because nothing in it holds them.
  bool names_need_file = false;
  bool names_of_folders = false;       // of --data: then its classes are the model's in order
  std::vector<std::string> leave_out;  // classes of --data that the model has forgotten
  SampleChoice samples;
  std::stop_token stop;  // Ctrl-C, once a run has been started
};
// In two steps, so that what else was asked for can be checked before the model runs.
[[nodiscard]] LoadedModel open_model(const ModelOptions& options);
void run_on_data(LoadedModel& loaded, const ModelOptions& options);
[[nodiscard]] LoadedModel load(const ModelOptions& options);

}  // namespace oubli::cli
