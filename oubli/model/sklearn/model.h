#pragma once

#include <memory>
#include <vector>

#include "oubli/array/packed_stream.h"
#include "oubli/model/model_file.h"
#include "oubli/model/sklearn/estimator.h"
#include "oubli/pickle/pickle.h"

namespace oubli {

// A linear classifier of scikit-learn, alone or inside of a Pipeline, that pickle or joblib saved;
// compressed by zlib or gzip, or not.
class SklearnModel final : public ModelFile {
 public:
  SklearnModel(const std::filesystem::path& path, const HeadChoice& choice);
  [[nodiscard]] std::string_view format() const override { return ".pkl"; }
  [[nodiscard]] const HeadView& head() const override { return head_; }
  [[nodiscard]] std::string head_name() const override;
  [[nodiscard]] std::optional<std::vector<std::string>> class_names() const override;
  [[nodiscard]] std::vector<Finding> findings() const override;
  void check_enough_left(std::size_t left) const override;
  [[nodiscard]] std::optional<StoredHead> stored_as(
      const NewHead& head, std::span<const std::size_t> retained) const override;
  [[nodiscard]] bool shift_shows() const override { return estimator_.shift_shows; }
  [[nodiscard]] std::vector<std::filesystem::path> files() const override { return {path()}; }
  void check_unchanged() const override { file_->check_unchanged(); }
  [[nodiscard]] std::vector<std::string> places_with_name(std::string_view name) const override;
  [[nodiscard]] StagedModel stage(const NewHead& head, std::span<const std::size_t> retained,
                                  const std::filesystem::path& path, bool replace) const override;
  void for_each_packed(const std::function<bool(const std::string& where,
                                                std::span<const std::byte>)>& visit) const override;

 private:
  std::unique_ptr<MappedFile> file_;
  Packing packing_ = Packing::none;
  std::vector<std::byte> unpacked_;
  std::unique_ptr<pickle::Pickle> pickle_;
  sklearn::Estimator estimator_;
  std::vector<std::byte> weights_, bias_;  // of two classes that are one row
  HeadView head_;
};

}  // namespace oubli
