#pragma once

#include "oubli/array/array_file.h"
#include "oubli/model/model_file.h"

namespace oubli {

// Two last layers of the same shape whose logits are averaged, as DeiT has them for its class token
// and its distillation token, in a .safetensors file. Together they are one head of twice the
// features, [W1 W2] / 2 and (b1 + b2) / 2: features are those of both, side by side.
class TwoHeads final : public ModelFile {
 public:
  // Names of the two weight tensors, classes x features; biases go by the same names.
  TwoHeads(const std::filesystem::path& path, std::string first, std::string second);
  [[nodiscard]] std::string_view format() const override { return file_->format(); }
  [[nodiscard]] const HeadView& head() const override { return head_; }
  // The first one's weights come first.
  [[nodiscard]] std::string head_name() const override;
  [[nodiscard]] std::optional<std::vector<std::string>> class_names() const override {
    return std::nullopt;
  }
  [[nodiscard]] std::vector<Finding> findings() const override;
  [[nodiscard]] std::vector<std::filesystem::path> files() const override { return {path()}; }
  void check_unchanged() const override { file_->file().check_unchanged(); }
  [[nodiscard]] StagedModel stage(const NewHead& head, std::span<const std::size_t> retained,
                                  const std::filesystem::path& path, bool replace) const override;

 private:
  struct Part {
    std::string weights_name, bias_name;
    SharedTensor weights, bias;
  };
  [[nodiscard]] Part read(const std::string& weights) const;

  std::unique_ptr<ArrayFile> file_;
  Part first_, second_;
  Tensor weights_, bias_;
  HeadView head_;
};

}  // namespace oubli
