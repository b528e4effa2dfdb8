#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

// What a graph says, as plain structs that remember which wire field each came from, so that an
// edit can go to that very field.
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

  // That its elements take, as far as shape and type are known here and make sense.
  [[nodiscard]] std::optional<std::uint64_t> bytes() const;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;  // in an order in which they can run, whatever that of the file is
  std::vector<TensorInfo> initializers;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<ValueInfo> value_infos;
  bool cyclic = false;  // some nodes wait for one another: such a graph never runs

  [[nodiscard]] const TensorInfo* initializer(std::string_view tensor_name) const;
  // The node that makes a value, if one does.
  [[nodiscard]] const Node* producer(std::string_view value) const;
  [[nodiscard]] bool is_output(std::string_view value) const;
  // What inputs and value_infos say of a value; mostly one, or none.
  [[nodiscard]] std::vector<const ValueInfo*> infos(std::string_view value) const {
    return at(infos_, value);
  }
  // The same of the outputs.
  [[nodiscard]] std::vector<const ValueInfo*> output_infos(std::string_view value) const {
    return at(output_infos_, value);
  }

  Graph() = default;
  Graph(const Graph&) = delete;  // its tables point into it
  Graph& operator=(const Graph&) = delete;

 private:
  friend class Model;
  // Fills the tables and sorts the nodes. Error{bad_input} if two things have one name.
  void index(const std::string& what);
  void sort_nodes();

  using Infos = std::unordered_multimap<std::string_view, const ValueInfo*>;
  [[nodiscard]] static std::vector<const ValueInfo*> at(const Infos& infos, std::string_view value);

  std::unordered_map<std::string_view, const TensorInfo*> initializers_by_name_;
  std::unordered_map<std::string_view, const Node*> producers_;
  Infos infos_, output_infos_;
};

}  // namespace oubli::onnx
