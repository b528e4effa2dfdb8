#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "oubli/filtration/filter.h"
#include "oubli/model/onnx/head.h"
#include "oubli/onnx/model.h"
#include "oubli/onnx/side_files.h"

namespace oubli {

struct OnnxRewrite {
  onnx::Message message;  // the new model; parts of it are the old one's bytes
  std::vector<onnx::SideFile> side_files;
  // What a person should know: weights kept because something else uses them, outputs that still
  // show the features, ...
  std::vector<std::string> findings;
  // The old weights or bias are still in the file because something else reads them.
  bool old_head_kept = false;
};

// The model with another head: the layer, its bias, the class dimension of everything behind it,
// label constants, class names in the metadata are replaced. All other bytes stay. `output` is
// where the new model will be written, for naming side files. Error{unfilterable} if the file holds
// something that cannot be changed safely.
[[nodiscard]] OnnxRewrite rewrite_onnx(const onnx::Model& model, const OnnxHead& head,
                                       const NewHead& new_head, std::span<const std::size_t> forget,
                                       const std::filesystem::path& output);

}  // namespace oubli
