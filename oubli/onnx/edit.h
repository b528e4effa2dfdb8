#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "oubli/array/tensor.h"
#include "oubli/onnx/constants.h"
#include "oubli/onnx/model.h"
#include "oubli/onnx/side_files.h"

namespace oubli::onnx {

// dims of a TensorProto, in the encoding they had.
void set_dims(Message& tensor, std::span<const std::size_t> dims);
// The numbers of a TensorProto, wherever they were before.
void set_raw_data(Message& tensor, const std::vector<std::byte>& bytes);

// A copy of a model's message, and edits of it: constants replaced in place where they have one
// reader, else under a new name; nodes and stored tensors that go; shapes as they are declared. The
// model itself stays what it is and must outlive the copy.
class Editor {
 public:
  explicit Editor(const Model& model);

  [[nodiscard]] const Model& model() const { return model_; }
  [[nodiscard]] Message& message() { return message_; }
  [[nodiscard]] Message& graph() { return graph_; }
  [[nodiscard]] Message& node_message(const Node& node);
  [[nodiscard]] Message& initializer_message(const TensorInfo& info);
  // The message of the tensor that a Constant node holds as its `value`.
  [[nodiscard]] Message& value_message(const Node& constant);

  // Who reads a value now.
  [[nodiscard]] bool is_read(const std::string& value) const;
  [[nodiscard]] bool only_reader(const std::string& value, const Node& node) const;
  // Whether a field of the graph is gone.
  [[nodiscard]] bool is_removed(std::size_t field) const { return graph_.fields[field].removed; }

  // Puts `tensor` in the place of the constant that `node` reads as its input number `input`.
  // `stored_shape`: its shape if it replaces a stored tensor in place; else `used_shape`.
  void replace_constant(const Node& node, std::size_t input, const Constant& constant,
                        const Tensor& tensor, const std::vector<std::size_t>& stored_shape,
                        const std::vector<std::size_t>& used_shape);
  // Gives a stored tensor, whose message is `stored`, other numbers.
  void replace_stored(const TensorInfo& info, Message& stored, const Tensor& tensor,
                      const std::vector<std::size_t>& shape);
  [[nodiscard]] std::string fresh_name(const std::string& base);
  void add_initializer(const std::string& name, const Tensor& tensor,
                       const std::vector<std::size_t>& shape);
  void set_input(const Node& node, std::size_t input, const std::string& name);
  // The same where the node may have no such input yet, but has all before it.
  void put_input(const Node& node, std::size_t input, const std::string& name);
  // Another list for an attribute of a node, in the encoding that it had.
  void set_list(const Node& node, const Attribute& attribute, std::span<const float> values);
  void set_list(const Node& node, const Attribute& attribute, std::span<const std::int64_t> values);
  void set_list(const Node& node, const Attribute& attribute, std::span<const std::string> values);
  // Takes effect with finish(): insertions move the positions of later fields. Several after one
  // node stand in the order in which they came.
  void insert_after(const Node& node, Message message);

  // Has `node` pass on its input number `input`. Stored values that only it read go.
  void make_identity(const Node& node, std::size_t input);
  void drop_initializer(const std::string& name);
  // A node that nothing reads.
  void drop_dead_node(const Node& node);

  // Gives a value's declared shape one new extent, if it stated the old one. `value_info`: its
  // field of the graph.
  void set_extent(std::size_t value_info, std::size_t axis, std::size_t extent);
  // A stored tensor's own entry among inputs and value_info.
  void set_value_info(const std::string& name, const std::vector<std::size_t>& shape);

  // What a person should know.
  void note(std::string finding) { findings_.push_back(std::move(finding)); }

  // Ends editing of the graph. What external data changes, by location.
  [[nodiscard]] Patches finish();
  [[nodiscard]] std::vector<std::string>& findings() { return findings_; }
  // Old weights are still in the file because something else reads them.
  [[nodiscard]] bool kept_old() const { return kept_old_; }

 private:
  // `packed`: all of them in one field.
  void put_list(const Node& node, const Attribute& attribute, std::uint32_t number, Field packed,
                std::vector<Field> one_each);
  void keep_old(const std::string& value);
  // Removes the node that makes `value`, then everything constant that nothing reads any more.
  void drop_producer(const std::string& value);

  const Model& model_;
  Message message_;
  Message& graph_;
  std::map<std::string, Readers, std::less<>> readers_;
  ExternalUse external_;
  std::vector<std::pair<std::size_t, Message>> pending_;  // behind that field
  std::set<std::string> made_;                            // names given to new tensors
  std::vector<std::string> findings_;
  bool kept_old_ = false;
};

}  // namespace oubli::onnx
