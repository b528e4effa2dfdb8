#pragma once

#include "oubli/array/array_file.h"
#include "oubli/model/model_file.h"
#include "oubli/model/named_head.h"

namespace oubli {

// A head among the tensors of an .npy, .npz or .safetensors file.
class ArrayModel final : public ModelFile {
 public:
  ArrayModel(const std::filesystem::path& path, const HeadChoice& choice);
  [[nodiscard]] std::string_view format() const override { return file_->format(); }
  [[nodiscard]] const HeadView& head() const override { return head_; }
  [[nodiscard]] std::string head_name() const override { return named_.describe(); }
  [[nodiscard]] std::optional<std::vector<std::string>> class_names() const override {
    return std::nullopt;
  }
  [[nodiscard]] std::vector<Finding> findings() const override { return named_.findings; }
  [[nodiscard]] std::vector<std::filesystem::path> files() const override { return {path()}; }
  void check_unchanged() const override { file_->file().check_unchanged(); }
  [[nodiscard]] std::vector<std::string> places_with_name(std::string_view name) const override;
  void for_each_packed(
      const std::function<bool(const std::string& where, std::span<const std::byte>)>& visit)
      const override {
    file_->for_each_packed(visit);
  }
  [[nodiscard]] StagedModel stage(const NewHead& head, std::span<const std::size_t> retained,
                                  const std::filesystem::path& path, bool replace) const override;

 private:
  std::unique_ptr<ArrayFile> file_;
  NamedHead named_;
  SharedTensor weights_;
  SharedTensor bias_;
  HeadView head_;
};

}  // namespace oubli
