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
#include "oubli/onnx/wire.h"

// Reading an ONNX model: what its graph says, as plain structs that remember which wire field each
// came from, so that an edit can go to that very field.
namespace oubli::onnx {

struct Attribute {
  std::string name;
  std::uint64_t type = 0;  // schema::attribute::kType...
  std::int64_t i = 0;
  float f = 0;
  std::string s;
  std::vector<std::int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> strings;
  std::span<const std::byte> tensor;  // a TensorProto, see Model::load
  std::size_t field = 0;              // index in the node's fields
};

struct Node {
  std::string op_type;
  std::string domain;  // empty: the standard operators
  std::string name;
  std::vector<std::string> inputs;  // an omitted optional input is ""
  std::vector<std::string> outputs;
  std::vector<Attribute> attributes;
  bool has_subgraph = false;             // If, Loop, Scan
  std::vector<std::string> outer_names;  // what its subgraphs mention, possibly of this graph
  std::size_t field = 0;                 // index in the graph's fields

  [[nodiscard]] const Attribute* attribute(std::string_view attribute_name) const;
  [[nodiscard]] std::int64_t int_or(std::string_view attribute_name, std::int64_t otherwise) const;
  [[nodiscard]] float float_or(std::string_view attribute_name, float otherwise) const;
  // "Gemm node 'fc'" or, without a name, "Gemm node of 'logits'".
  [[nodiscard]] std::string describe() const;
};

// One dimension: a number, a symbol ("batch"), or neither (unknown).
struct Dimension {
  std::optional<std::int64_t> value;
  std::string symbol;
};

// A graph input or output, or the stated type of an inner value.
struct ValueInfo {
  std::string name;
  std::uint64_t element_type = 0;  // TensorProto.DataType; 0: not a tensor
  std::optional<std::vector<Dimension>> shape;
  std::size_t field = 0;
};

struct TensorInfo {
  std::string name;
  std::uint64_t data_type = 0;  // TensorProto.DataType
  std::vector<std::int64_t> dims;
  std::string location;  // of external data, relative to the model's folder; else empty
  std::uint64_t external_offset = 0;
  std::optional<std::uint64_t> external_length;
  std::span<const std::byte> message;  // the whole TensorProto
  std::size_t field = 0;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<TensorInfo> initializers;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<ValueInfo> value_infos;

  [[nodiscard]] const TensorInfo* initializer(std::string_view tensor_name) const;
  // The node that makes a value, if one does.
  [[nodiscard]] const Node* producer(std::string_view value) const;
};

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
  [[nodiscard]] const std::string& producer_name() const { return producer_name_; }
  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const std::vector<MetadataEntry>& metadata() const { return metadata_; }
  [[nodiscard]] const MetadataEntry* metadata(std::string_view key) const;
  // The wire trees, for edits.
  [[nodiscard]] Message& message() { return message_; }
  [[nodiscard]] Message& graph_message();

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

  std::string what_;
  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> bytes_;
  std::filesystem::path folder_;
  Message message_;
  std::size_t graph_field_ = 0;
  std::int64_t ir_version_ = 0;
  std::int64_t opset_ = 0;
  std::string producer_name_;
  Graph graph_;
  std::vector<MetadataEntry> metadata_;
  std::map<std::string, std::filesystem::path> side_paths_;
  mutable std::map<std::string, std::shared_ptr<const MappedFile>> side_files_;
};

}  // namespace oubli::onnx
