#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/array/tensor.h"
#include "oubli/base/file.h"
#include "oubli/onnx/graph.h"
#include "oubli/onnx/wire.h"

// Reading an ONNX model.
namespace oubli::onnx {

struct MetadataEntry {
  std::string key;
  std::string value;
  std::size_t field = 0;  // index in the model's fields
};

// nothing for types that no array of ours has (strings, complex, 8-bit floats, 4-bit numbers).
[[nodiscard]] std::optional<DType> dtype_of(std::uint64_t data_type);
[[nodiscard]] std::uint64_t data_type_of(DType type);

class Model {
 public:
  // Maps the file. Error{bad_input} if it is not an ONNX model.
  // `side_files`: where external data is now, by the location that the file gives.
  explicit Model(const std::filesystem::path& path,
                 std::map<std::string, std::filesystem::path> side_files = {});
  // Reads from memory that must outlive the model; external data is looked for in `folder`.
  Model(std::span<const std::byte> bytes, std::string what, std::filesystem::path folder = {});

  [[nodiscard]] const std::string& what() const { return what_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::int64_t ir_version() const { return ir_version_; }
  // Of the standard operators; 0 if the file names none.
  [[nodiscard]] std::int64_t opset() const { return opset_; }
  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const std::vector<MetadataEntry>& metadata() const { return metadata_; }
  [[nodiscard]] const MetadataEntry* metadata(std::string_view key) const;
  // Which field of the model's message is the graph, for edits.
  [[nodiscard]] std::size_t graph_field() const { return graph_field_; }

  // The elements: raw or typed data, or external data (never outside the model's folder). Checked
  // against shape and element size. Error{bad_input}.
  [[nodiscard]] SharedTensor load(const TensorInfo& tensor) const;
  // The TensorProto of a Constant node's `value`.
  [[nodiscard]] TensorInfo tensor_info(std::span<const std::byte> tensor_message,
                                       const std::string& name) const;
  // Error{missing} if a side file is not there.
  [[nodiscard]] std::filesystem::path side_path(const std::string& location) const;
  [[nodiscard]] std::shared_ptr<const MappedFile> side_file(const std::string& location) const;
  void check_unchanged() const;

 private:
  void read();
  void read_graph(std::span<const std::byte> bytes);

  std::string what_;
  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> bytes_;
  std::filesystem::path folder_;
  std::size_t graph_field_ = 0;
  std::int64_t ir_version_ = 0;
  std::int64_t opset_ = 0;
  Graph graph_;
  std::vector<MetadataEntry> metadata_;
  std::map<std::string, std::filesystem::path> side_paths_;
  mutable std::map<std::string, std::shared_ptr<const MappedFile>> side_files_;
};

}  // namespace oubli::onnx
