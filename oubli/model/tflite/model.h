#pragma once

#include "oubli/array/zip.h"
#include "oubli/base/patches.h"
#include "oubli/model/model_file.h"
#include "oubli/model/name_text.h"
#include "oubli/model/tflite/graph.h"

namespace oubli {

// A TensorFlow Lite file that ends in a FULLY_CONNECTED layer, float or of 8 bits. The new file is
// the old one with patches of the same length: vectors get fewer elements, zeros fill the rest.
//
// A quantised head is shown as the float numbers that it stands for. Rows can be left out exactly
// (naive deletion); any other method would need numbers that its grid does not have, and is
// refused.
//
// Class names: the label file in the zip archive behind the model (TensorFlow Lite metadata).
class TfliteModel final : public ModelFile {
 public:
  TfliteModel(const std::filesystem::path& path, const HeadChoice& choice);
  [[nodiscard]] std::string_view format() const override { return ".tflite"; }
  [[nodiscard]] const HeadView& head() const override { return head_; }
  [[nodiscard]] std::string head_name() const override;
  [[nodiscard]] std::optional<std::vector<std::string>> class_names() const override;
  [[nodiscard]] std::vector<Finding> findings() const override { return findings_; }
  [[nodiscard]] bool shift_shows() const override {
    return place_.shift_shows || place_.rounds_logits;
  }
  [[nodiscard]] bool quantised() const override { return !weights_.bytes.empty(); }
  [[nodiscard]] std::vector<std::string> places_with_name(std::string_view name) const override;
  [[nodiscard]] std::vector<std::filesystem::path> files() const override { return {path()}; }
  [[nodiscard]] std::span<const std::byte> bytes() const override { return file_.bytes(); }
  void check_unchanged() const override { file_.check_unchanged(); }
  [[nodiscard]] StagedModel stage(const NewHead& head, std::span<const std::size_t> retained,
                                  const std::filesystem::path& path, bool replace) const override;

 private:
  void read_head();
  void read_labels();
  [[nodiscard]] TensorView values_of(std::size_t tensor, Tensor& storage) const;
  // Error{unfilterable} if something else may read the vector.
  void require_own(const FlatVector& vector, unsigned element) const;
  // Fewer elements, `values` being the first ones.
  void shrink(Patches& patches, const FlatVector& vector, unsigned element,
              std::span<const std::byte> values) const;
  void shrink_tensor(Patches& patches, std::size_t tensor, std::span<const std::byte> values,
                     std::span<const std::size_t> retained,
                     std::vector<std::vector<std::byte>>& storage) const;
  // `axis` of its shape counts classes.
  void shrink_shape(Patches& patches, const TfliteTensor& tensor, std::size_t axis,
                    std::size_t classes) const;
  // Rows of the tensor's bytes as they are.
  [[nodiscard]] std::vector<std::byte> rows_of(std::size_t tensor,
                                               std::span<const std::size_t> retained) const;
  void require_rows_kept(const NewHead& head, std::span<const std::size_t> retained) const;

  MappedFile file_;
  std::optional<ZipArchive> zip_;  // behind the model
  std::uint64_t model_end_ = 0;    // where it begins
  FlatBuffer buffer_;
  TfliteGraph graph_;
  TfliteHead place_;
  Tensor weights_, bias_;  // of a quantised head: what its numbers stand for
  HeadView head_;
  struct Labels {
    std::string entry;
    std::string text;
    NameText names;
  };
  std::vector<Labels> labels_;
  std::vector<Finding> findings_;
};

}  // namespace oubli
