#pragma once

#include <span>
#include <string>
#include <vector>

#include "oubli/cli/model_options.h"

namespace oubli::cli {

// What classes are called, and who says so.
struct NamesFound {
  enum class From { nobody, option, model, means, file, folders };
  std::vector<std::string> names = {};  // empty, or one per class
  From from = From::nobody;
  std::string place = {};  // the file or folder
};

// The first of: --class-names (`given`, its text), the model itself, its means, a list of as many
// names beside the model (MODEL.class-names.txt, class-names.txt, class_names.txt, classes.txt,
// labels.txt), the subfolders of --data if there are as many. Of the last two a remark says which,
// because nobody named them.
[[nodiscard]] NamesFound find_class_names(const ModelOptions& options, const std::string& given,
                                          const ModelFile& model, const ForgetInputs& inputs);

// Classes of --data that the model has forgotten: they are not among `names`, all of which are
// there, and the model's receipt lies beside it. A remark says so.
[[nodiscard]] std::vector<std::string> forgotten_in_data(const ModelOptions& options,
                                                         const ModelFile& model,
                                                         std::span<const std::string> names);

}  // namespace oubli::cli
