#pragma once

#include <memory>
#include <vector>

#include "oubli/model/model_file.h"
#include "oubli/model/torch/archive.h"
#include "oubli/model/torch/names.h"
#include "oubli/model/torch/parts.h"
#include "oubli/model/torch/tensors.h"

namespace oubli {

// A classifier in a file of PyTorch: a state dict, a checkpoint around one, or a whole module. What
// has a row per class because the head has (running averages, the optimizer's state, auxiliary
// heads) loses the same rows.
class TorchModel final : public ModelFile {
 public:
  TorchModel(const std::filesystem::path& path, const HeadChoice& choice);
  [[nodiscard]] std::string_view format() const override { return ".pth"; }
  [[nodiscard]] const HeadView& head() const override { return head_; }
  [[nodiscard]] std::string head_name() const override;
  [[nodiscard]] std::optional<std::vector<std::string>> class_names() const override;
  [[nodiscard]] std::vector<Finding> findings() const override;
  [[nodiscard]] std::vector<std::filesystem::path> files() const override { return {path()}; }
  void check_unchanged() const override { archive_->file().check_unchanged(); }
  [[nodiscard]] std::vector<std::string> places_with_name(std::string_view name) const override;
  [[nodiscard]] StagedModel stage(const NewHead& head, std::span<const std::size_t> retained,
                                  const std::filesystem::path& path, bool replace) const override;

 private:
  [[nodiscard]] TensorView view(std::size_t tensor, std::vector<std::byte>& storage) const;
  [[nodiscard]] std::string bias_name() const;
  // out_features and the like of the modules that hold a tensor which was cut.
  void lower_sides(std::span<const std::size_t> cut, std::size_t classes,
                   pickle::Edits& edits) const;

  std::unique_ptr<torch::Archive> archive_;
  std::vector<torch::Tensor> tensors_;
  torch::Parts parts_;
  std::vector<torch::NameList> names_;
  std::vector<std::byte> weights_, bias_;  // where they are not in the file as they are
  HeadView head_;
};

}  // namespace oubli
