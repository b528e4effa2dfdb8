#pragma once

#include "oubli/array/array_file.h"
#include "oubli/model/model_file.h"

namespace oubli {

// A head among the tensors of an .npz or .safetensors file.
//
// Found, unless named, as: the only float matrix; or the only one with a usual name of a last layer
// (fc.weight, classifier.weight, head.weight, W, ...). The bias is the vector that goes by the
// matching name, or the only vector of a fitting length. The side of W that counts classes is told
// by what is known of classes and features, by the bias, by the names (.weight: rows, kernel:
// columns), else it is the rows, as in PyTorch.
class ArrayModel final : public ModelFile {
 public:
  ArrayModel(const std::filesystem::path& path, const HeadChoice& choice);
  [[nodiscard]] std::string_view format() const override { return file_->format(); }
  [[nodiscard]] const HeadView& head() const override { return head_; }
  [[nodiscard]] std::string head_name() const override;
  [[nodiscard]] std::optional<std::vector<std::string>> class_names() const override {
    return std::nullopt;
  }
  [[nodiscard]] std::vector<Finding> findings() const override { return findings_; }
  [[nodiscard]] std::vector<std::filesystem::path> files() const override { return {path()}; }
  void check_unchanged() const override { file_->file().check_unchanged(); }
  [[nodiscard]] std::vector<std::string> places_with_name(std::string_view name) const override;
  [[nodiscard]] StagedModel stage(const NewHead& head, std::span<const std::size_t> retained,
                                  const std::filesystem::path& path, bool replace) const override;

 private:
  [[nodiscard]] std::string find_weights(const HeadChoice& choice) const;
  [[nodiscard]] std::string find_bias(const HeadChoice& choice) const;
  [[nodiscard]] std::string name_for_new_bias() const;
  void orient(const HeadChoice& choice);
  // A bias that is not noticed would stay in the file as it is, and A would be wrong.
  void refuse_a_vector_that_may_be_the_bias() const;
  void look_around();

  std::unique_ptr<ArrayFile> file_;
  std::string weights_name_;
  std::string bias_name_;  // empty: none
  LoadedTensor weights_;
  LoadedTensor bias_;
  HeadView head_;
  std::vector<Finding> findings_;
};

}  // namespace oubli
