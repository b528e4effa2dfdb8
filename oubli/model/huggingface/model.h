#pragma once

#include <map>

#include "oubli/model/huggingface/config.h"
#include "oubli/model/model_file.h"

namespace oubli {

// A folder as Hugging Face's libraries save it: config.json and the weights, model.safetensors (or
// shards with an index) or pytorch_model.bin. The weights are a model file of their own; this adds
// the class names of the configuration, and writes a new folder: the changed weights, index and
// configuration, and copies of all else. Other copies of the weights (TensorFlow's, ONNX, optimizer
// states) are left out, since they would still hold what is forgotten.
class HuggingFaceModel final : public ModelFile {
 public:
  HuggingFaceModel(const std::filesystem::path& folder, const HeadChoice& choice);
  [[nodiscard]] std::string_view format() const override { return "Hugging Face folder"; }
  [[nodiscard]] const HeadView& head() const override { return weights_->head(); }
  [[nodiscard]] std::string head_name() const override { return weights_->head_name(); }
  [[nodiscard]] std::optional<std::vector<std::string>> class_names() const override;
  [[nodiscard]] std::vector<Finding> findings() const override;
  [[nodiscard]] bool shift_shows() const override { return config_.multi_label(); }
  [[nodiscard]] std::vector<std::string> places_with_name(std::string_view name) const override;
  // The file with the head first.
  [[nodiscard]] std::vector<std::filesystem::path> files() const override;
  void check_unchanged() const override;
  [[nodiscard]] StagedModel stage(const NewHead& head, std::span<const std::size_t> retained,
                                  const std::filesystem::path& path, bool replace) const override;

 private:
  // What becomes of each file in the folder, by its path there.
  enum class Fate { rewritten, copied, left_out };
  void list_files();
  void open_weights(const HeadChoice& choice);
  // The head's weights, and those of a second one that is averaged with it, if there is one. `file`
  // becomes the one that they are in.
  struct Heads {
    std::string first, second;
  };
  [[nodiscard]] Heads find_heads(const HeadChoice& choice, std::string& file) const;
  // Every tensor and the file that it is in.
  [[nodiscard]] std::map<std::string, std::string> tensor_files(const std::string& file) const;
  [[nodiscard]] std::string find_head(const HeadChoice& choice,
                                      const std::map<std::string, std::string>& where) const;

  FolderConfig config_;
  std::filesystem::file_time_type config_written_;
  std::map<std::filesystem::path, Fate> fates_;
  std::filesystem::path index_;  // empty: the weights are in one file
  std::string index_text_;
  std::vector<std::filesystem::path> weight_files_;  // relative, the head's first
  std::unique_ptr<ModelFile> weights_;
  std::vector<Finding> findings_;
};

}  // namespace oubli
