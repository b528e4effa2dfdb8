#pragma once

#include "oubli/array/zip.h"
#include "oubli/hdf5/file.h"
#include "oubli/model/keras/config.h"
#include "oubli/model/keras/weights.h"
#include "oubli/model/model_file.h"

namespace oubli {

// A Keras model: .h5 of Keras 1 to 3 (also weights alone), or .keras. The new file is the old one
// with patches of the same length: the head's arrays and the optimizer's numbers for them get fewer
// columns, zeros fill what they leave, and the number of units in the configuration changes.
//
// Class names are in no such file. They are read from NAME.labels.txt or labels.txt beside it, one
// per line, with or without a number in front ("0 Rock", as Teachable Machine writes them), or from
// "labels" in metadata.json there.
class KerasModel final : public ModelFile {
 public:
  KerasModel(const std::filesystem::path& path, const HeadChoice& choice);
  [[nodiscard]] std::string_view format() const override { return zip_ ? ".keras" : ".h5"; }
  [[nodiscard]] const HeadView& head() const override { return head_; }
  [[nodiscard]] std::string head_name() const override;
  [[nodiscard]] std::optional<std::vector<std::string>> class_names() const override {
    return class_names_;
  }
  [[nodiscard]] std::vector<Finding> findings() const override { return findings_; }
  [[nodiscard]] bool shift_shows() const override { return config_ && config_->shift_shows; }
  [[nodiscard]] std::vector<std::string> places_with_name(std::string_view name) const override;
  [[nodiscard]] std::vector<std::filesystem::path> files() const override;
  [[nodiscard]] std::vector<std::filesystem::path> files_beside(
      const std::filesystem::path& output) const override;
  [[nodiscard]] std::span<const std::byte> bytes() const override { return file_.bytes(); }
  void check_unchanged() const override { file_.check_unchanged(); }
  [[nodiscard]] StagedModel stage(const NewHead& head, std::span<const std::size_t> retained,
                                  const std::filesystem::path& path, bool replace) const override;
  void for_each_packed(const std::function<bool(const std::string& where,
                                                std::span<const std::byte>)>& visit) const override;

 private:
  void read_config();
  void read_labels();
  void look_around();
  void refuse_to_stage(const NewHead& head) const;
  // Changes of the HDF5 part and of the configuration's text; `moments` holds what is pointed to.
  [[nodiscard]] Patches weight_patches(const NewHead& head, std::span<const std::size_t> retained,
                                       std::vector<Tensor>& moments) const;
  [[nodiscard]] Patches config_patches(std::size_t classes) const;
  void write_keras(AtomicFile& out, const Patches& weights, const Patches& config) const;

  MappedFile file_;
  std::optional<ZipArchive> zip_;  // .keras
  SharedTensor unpacked_;          // its model.weights.h5
  std::optional<Hdf5File> hdf5_;
  std::string config_text_;
  std::uint64_t config_at_ = 0;  // in the HDF5 file
  std::optional<KerasHead> config_;
  HeadChoice choice_;
  KerasWeights weights_;
  HeadView head_;
  std::optional<std::vector<std::string>> class_names_;
  std::filesystem::path labels_file_;  // where they are from
  bool numbered_labels_ = false;
  std::vector<Finding> findings_;
};

}  // namespace oubli
