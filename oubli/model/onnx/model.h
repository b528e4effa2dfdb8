#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oubli/model/model_file.h"
#include "oubli/model/onnx/head.h"
#include "oubli/onnx/model.h"

namespace oubli {

// A classifier in an ONNX file, its external data included.
class OnnxModel final : public ModelFile {
 public:
  // It may be one with too few classes to lose one, such as an earlier request leaves: to be looked
  // at, run and verified. Error{usage} if a person said what the graph says: bias and layout.
  explicit OnnxModel(const std::filesystem::path& path, const HeadChoice& choice = {});
  // A model just written, for looking at only. `side_files`: where external data is now, by the
  // location that the file gives.
  OnnxModel(const std::filesystem::path& path,
            std::map<std::string, std::filesystem::path> side_files, OnnxHeadChoice choice);

  [[nodiscard]] std::string_view format() const override { return ".onnx"; }
  [[nodiscard]] const HeadView& head() const override { return head_view_; }
  [[nodiscard]] std::string head_name() const override { return head_.node->describe(); }
  // From the metadata, else from labels that the graph looks up. Nothing if two lists have the same
  // names in different orders: then nobody knows which class a name means.
  [[nodiscard]] std::optional<std::vector<std::string>> class_names() const override;
  // About forgetting a class: Error{unfilterable} with the reason if none can be.
  [[nodiscard]] std::vector<Finding> findings() const override;
  void check_enough_left(std::size_t left) const override {
    oubli::check_enough_left(model_, head_, left);
  }
  // The nearest head in whole numbers, if the file has one and keeps it so.
  [[nodiscard]] std::optional<StoredHead> stored_as(
      const NewHead& head, std::span<const std::size_t> retained) const override;
  [[nodiscard]] bool quantised() const override { return head_.integers.has_value(); }
  [[nodiscard]] bool becomes_floats() const override { return head_.as_floats; }
  [[nodiscard]] std::vector<std::filesystem::path> files() const override;
  [[nodiscard]] std::vector<std::filesystem::path> files_beside(
      const std::filesystem::path& output) const override;
  [[nodiscard]] std::span<const std::byte> bytes() const override { return model_.bytes(); }
  void check_unchanged() const override { model_.check_unchanged(); }
  [[nodiscard]] bool shift_shows() const override { return !head_.tail.nonlinear.empty(); }
  // With "..." for the name itself: this goes to receipts.
  [[nodiscard]] std::vector<std::string> places_with_name(std::string_view name) const override;
  [[nodiscard]] StagedModel stage(const NewHead& head, std::span<const std::size_t> retained,
                                  const std::filesystem::path& path, bool replace) const override {
    return stage_in(head, retained, path, path.parent_path(), replace);
  }
  [[nodiscard]] StagedModel stage_again(const NewHead& head, std::span<const std::size_t> retained,
                                        const std::filesystem::path& path,
                                        const std::filesystem::path& folder) const override {
    return stage_in(head, retained, path, folder, true);
  }

  [[nodiscard]] const onnx::Model& model() const { return model_; }
  [[nodiscard]] const OnnxHead& onnx_head() const { return head_; }

 private:
  // Files named for a model at `path`, in `folder`.
  [[nodiscard]] StagedModel stage_in(const NewHead& head, std::span<const std::size_t> retained,
                                     const std::filesystem::path& path,
                                     const std::filesystem::path& folder, bool replace) const;
  // Every list of one name per class: metadata, and labels that the graph looks up.
  struct NameList {
    std::string where;
    std::vector<std::string> names;
  };
  [[nodiscard]] std::vector<NameList> name_lists() const;
  // Where names of forgotten classes still stand in `written` that class_names() does not give.
  [[nodiscard]] std::vector<Finding> places_of_other_names(
      const ModelFile& written, std::span<const std::size_t> forget) const;

  // Refuses locations outside the model's folder before anybody, ONNX Runtime included, reads them.
  void check_locations();

  onnx::Model model_;
  OnnxHeadChoice choice_;
  OnnxHead head_;
  HeadView head_view_;
  std::vector<std::string> locations_;  // of external data, wherever in the file
};

}  // namespace oubli
