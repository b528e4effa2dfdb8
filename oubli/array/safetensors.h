#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "oubli/array/array_file.h"

namespace oubli {

// .safetensors: an 8-byte length, a JSON object {name: {dtype, shape, data_offsets}, ...,
// "__metadata__": {text: text}}, then the elements of all tensors without gaps or overlaps.
class SafetensorsFile final : public ArrayFile {
 public:
  explicit SafetensorsFile(std::shared_ptr<const MappedFile> file);
  explicit SafetensorsFile(const std::filesystem::path& path)
      : SafetensorsFile(std::make_shared<const MappedFile>(path)) {}
  [[nodiscard]] std::string_view format() const override { return ".safetensors"; }
  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return tensors_; }
  [[nodiscard]] SharedTensor read(std::string_view name) const override;
  void rewrite(AtomicFile& out, std::span<const TensorEdit> edits) const override;

  [[nodiscard]] std::vector<Words> words() const override;

  // The "__metadata__" object as it is in the file; empty if there is none.
  [[nodiscard]] std::string_view metadata_json() const { return metadata_; }

 private:
  struct Place {
    std::string_view key;  // the name as the file's JSON spells it, quotes included
    std::span<const std::byte> bytes;
  };
  std::vector<TensorInfo> tensors_;  // in the header's order, as are places_
  std::vector<Place> places_;
  std::string_view metadata_;
  std::size_t metadata_position_ = 0;  // it stood before this tensor
};

}  // namespace oubli
