#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oubli/model/model_file.h"

namespace oubli {

// config.json of a Hugging Face folder (transformers or timm), as a text in which single entries
// are changed and the rest stays as it is.
class FolderConfig {
 public:
  FolderConfig(std::string text, std::string what);

  [[nodiscard]] const std::string& text() const { return text_; }
  // One per class, from id2label, label2id or label_names.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  // From the names, num_labels or num_classes.
  [[nodiscard]] std::optional<std::size_t> classes() const { return classes_; }
  // timm names it: "head.fc".
  [[nodiscard]] const std::string& classifier() const { return classifier_; }
  // Outputs are sigmoids, not a softmax.
  [[nodiscard]] bool multi_label() const { return multi_label_; }
  [[nodiscard]] const std::string& architecture() const { return architecture_; }

  // The text without the classes that are not in `retained`: names, descriptions, counts.
  [[nodiscard]] std::string without(std::span<const std::size_t> retained) const;

 private:
  std::string text_;
  std::string what_;
  std::vector<std::string> names_;
  std::optional<std::size_t> classes_;
  std::string classifier_;
  std::string architecture_;
  bool multi_label_ = false;
};

// The index of a model in several files with other sums: metadata.total_size (bytes) and
// total_parameters are less by what was taken out.
[[nodiscard]] std::string shrunk_index(const std::string& text, std::size_t bytes,
                                       std::size_t parameters, const std::string& what);

}  // namespace oubli
