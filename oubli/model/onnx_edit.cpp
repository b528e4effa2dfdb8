#include "oubli/model/onnx_edit.h"

#include <algorithm>
#include <utility>

#include "oubli/onnx/builder.h"
#include "oubli/onnx/schema.h"

namespace oubli {

namespace schema = onnx::schema;
using onnx::Field;
using onnx::Message;
using onnx::Node;
using onnx::WireType;

void set_dims(Message& tensor, std::span<const std::size_t> dims) {
  std::vector<Field*> fields;
  for (Field& field : tensor.fields) {
    if (field.number == schema::tensor::kDims && !field.removed) fields.push_back(&field);
  }
  const bool one_each =
      fields.size() == dims.size() && std::ranges::all_of(fields, [](const Field* field) {
        return field->type == WireType::varint;
      });
  if (one_each) {
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (fields[i]->value != dims[i]) onnx::set_varint(*fields[i], dims[i]);
    }
    return;
  }
  for (Field* field : fields) field->removed = true;
  const std::vector<std::int64_t> values(dims.begin(), dims.end());
  tensor.add(onnx::packed_field(schema::tensor::kDims, values));
}

void set_raw_data(Message& tensor, const std::vector<std::byte>& bytes) {
  bool done = false;
  for (Field& field : tensor.fields) {
    switch (field.number) {
      case schema::tensor::kRawData:
        onnx::set_bytes(field, bytes);
        done = true;
        break;
      case schema::tensor::kFloatData:
      case schema::tensor::kInt32Data:
      case schema::tensor::kInt64Data:
      case schema::tensor::kDoubleData:
      case schema::tensor::kUint64Data:
      case schema::tensor::kExternalData:
      case schema::tensor::kDataLocation:
        field.removed = true;
        break;
      default:
        break;
    }
  }
  if (!done) tensor.add(onnx::bytes_field(schema::tensor::kRawData, bytes));
}

Message& OnnxEditor::node_message(const Node& node) {
  return onnx::open(graph_.fields[node.field], model_.what());
}

Message& OnnxEditor::initializer_message(const onnx::TensorInfo& info) {
  return onnx::open(graph_.fields[info.field], model_.what());
}

bool OnnxEditor::only_reader(const std::string& value, const Node& node) const {
  const auto found = readers_.find(value);
  if (found == readers_.end()) return true;
  const onnx::Readers& readers = found->second;
  return !readers.graph_output && !readers.subgraph && readers.nodes.size() == 1 &&
         &model_.graph().nodes[readers.nodes.front()] == &node;
}

void OnnxEditor::replace_constant(const Node& node, std::size_t input,
                                  const onnx::Constant& constant, const Tensor& tensor,
                                  const std::vector<std::size_t>& stored_shape,
                                  const std::vector<std::size_t>& used_shape) {
  const std::string& value = node.inputs[input];
  if (!only_reader(value, node)) {
    std::string name = fresh_name(value);
    add_initializer(name, tensor, used_shape);
    set_input(node, input, name);
    keep_old(value);
    return;
  }
  if (constant.chain.empty() && constant.initializer != nullptr) {
    replace_initializer(*constant.initializer, tensor, stored_shape);
    return;
  }
  if (constant.chain.empty() && constant.constant_node->attribute("value") != nullptr) {
    const onnx::Attribute& attribute = *constant.constant_node->attribute("value");
    Message& message =
        onnx::open(node_message(*constant.constant_node).fields[attribute.field], model_.what());
    Message& stored = onnx::open(*message.find(schema::attribute::kTensor), model_.what());
    set_dims(stored, stored_shape);
    set_raw_data(stored, tensor.bytes);
    set_value_info(value, stored_shape);
    return;
  }
  // Behind other nodes: the new tensor takes the name of what the last of them made.
  drop_producer(value);
  add_initializer(value, tensor, used_shape);
  set_value_info(value, used_shape);
}

void OnnxEditor::replace_initializer(const onnx::TensorInfo& info, const Tensor& tensor,
                                     const std::vector<std::size_t>& shape) {
  Message& stored = initializer_message(info);
  set_dims(stored, shape);
  set_value_info(info.name, shape);
  if (info.location.empty()) {
    set_raw_data(stored, tensor.bytes);
    return;
  }
  const std::uint64_t old_size = model_.load(info).view.bytes.size();
  for (const onnx::TensorInfo& other : model_.graph().initializers) {
    if (other.name == info.name || other.location != info.location) continue;
    const std::uint64_t size = model_.load(other).view.bytes.size();
    if (other.external_offset < info.external_offset + old_size &&
        info.external_offset < other.external_offset + size) {
      // Two tensors over the same bytes: the other one keeps them.
      set_raw_data(stored, tensor.bytes);
      keep_old(other.name);
      return;
    }
  }
  if (tensor.bytes.size() > old_size) {  // a single number spread over the classes
    set_raw_data(stored, tensor.bytes);
    patches_[info.location].push_back({info.external_offset, old_size, {}});
    return;
  }
  for (Field& field : stored.fields) {
    if (field.number != schema::tensor::kExternalData) continue;
    Message& entry = onnx::open(field, model_.what());
    const std::string_view key = entry.text_or(schema::entry::kKey, "");
    if (key == "length")
      onnx::set_text(*entry.find(schema::entry::kValue), std::to_string(tensor.bytes.size()));
    if (key == "checksum") field.removed = true;
  }
  patches_[info.location].push_back({info.external_offset, old_size, tensor.bytes});
}

void OnnxEditor::keep_old(const std::string& value) {
  kept_old_ = true;
  note(
      fmt::format("'{}' is used elsewhere in the model too (tied weights): it is kept as it is, "
                  "the forgotten row with it",
                  value));
}

std::string OnnxEditor::fresh_name(const std::string& base) {
  std::string name = base + "_filtered";
  while (made_.contains(name) || readers_.contains(name) ||
         model_.graph().producer(name) != nullptr || model_.graph().initializer(name) != nullptr) {
    name += "_";
  }
  made_.insert(name);
  return name;
}

void OnnxEditor::add_initializer(const std::string& name, const Tensor& tensor,
                                 const std::vector<std::size_t>& shape) {
  const TensorView view{tensor.dtype, shape, tensor.bytes, name};
  graph_.add(onnx::message_field(schema::graph::kInitializer, onnx::tensor_message(name, view)));
  if (model_.ir_version() >= 4) return;
  std::vector<onnx::Dim> dims;
  dims.reserve(shape.size());
  for (const std::size_t extent : shape) dims.emplace_back(static_cast<std::int64_t>(extent));
  graph_.add(
      onnx::message_field(schema::graph::kInput,
                          onnx::value_info_message(name, onnx::data_type_of(tensor.dtype), dims)));
}

void OnnxEditor::set_input(const Node& node, std::size_t input, const std::string& name) {
  std::size_t seen = 0;
  for (Field& field : node_message(node).fields) {
    if (field.number != schema::node::kInput) continue;
    if (seen++ == input) return onnx::set_text(field, name);
  }
}

void OnnxEditor::drop_producer(const std::string& value) {
  const Node* node = model_.graph().producer(value);
  if (node == nullptr) return;
  graph_.fields[node->field].removed = true;
  for (const std::string& input : node->inputs) {
    const auto found = readers_.find(input);
    if (found == readers_.end()) continue;
    onnx::Readers& readers = found->second;
    const auto index = static_cast<std::size_t>(node - model_.graph().nodes.data());
    std::erase(readers.nodes, index);
    if (readers.count() != 0) {
      if (&input == &node->inputs.front()) keep_old(input);
      continue;
    }
    drop_initializer(input);
    drop_producer(input);
  }
}

void OnnxEditor::drop_initializer(const std::string& name) {
  const onnx::TensorInfo* info = model_.graph().initializer(name);
  if (info == nullptr) return;
  graph_.fields[info->field].removed = true;
  if (!info->location.empty()) {
    patches_[info->location].push_back(
        {info->external_offset, model_.load(*info).view.bytes.size(), {}});
  }
  for (const auto* infos : {&model_.graph().inputs, &model_.graph().value_infos}) {
    for (const onnx::ValueInfo& value : *infos) {
      if (value.name == name) graph_.fields[value.field].removed = true;
    }
  }
}

bool OnnxEditor::is_read(const std::string& value) const {
  const auto readers = readers_.find(value);
  return readers != readers_.end() && readers->second.count() != 0;
}

void OnnxEditor::set_extent(std::size_t value_info, std::size_t axis, std::size_t extent) {
  Message& info = onnx::open(graph_.fields[value_info], model_.what());
  Field* type = info.find(schema::value_info::kType);
  if (type == nullptr) return;
  Field* tensor = onnx::open(*type, model_.what()).find(schema::type::kTensorType);
  if (tensor == nullptr) return;
  Field* shape = onnx::open(*tensor, model_.what()).find(schema::type::kShape);
  if (shape == nullptr) return;
  std::size_t seen = 0;
  for (Field& field : onnx::open(*shape, model_.what()).fields) {
    if (field.number != schema::shape::kDim || seen++ != axis) continue;
    Field* number = onnx::open(field, model_.what()).find(schema::shape::kDimValue);
    if (number != nullptr && number->value != extent) onnx::set_varint(*number, extent);
  }
}

void OnnxEditor::set_value_info(const std::string& name, const std::vector<std::size_t>& shape) {
  for (const auto* infos : {&model_.graph().inputs, &model_.graph().value_infos}) {
    for (const onnx::ValueInfo& info : *infos) {
      if (info.name != name || !info.shape || info.shape->size() != shape.size()) continue;
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        set_extent(info.field, axis, shape[axis]);
      }
    }
  }
}

void OnnxEditor::insert_after(const Node& node, Message message) {
  OUBLI_ASSERT(!pending_);
  pending_ = {node.field, std::move(message)};
}

void OnnxEditor::finish() {
  if (!pending_) return;
  graph_.fields.insert(graph_.fields.begin() + static_cast<std::ptrdiff_t>(pending_->first) + 1,
                       onnx::message_field(schema::graph::kNode, std::move(pending_->second)));
  pending_.reset();
}

void OnnxEditor::drop_dead_node(const Node& node) {
  graph_.fields[node.field].removed = true;
  const auto index = static_cast<std::size_t>(&node - model_.graph().nodes.data());
  for (const std::string& input : node.inputs)
    if (const auto readers = readers_.find(input); readers != readers_.end())
      std::erase(readers->second.nodes, index);
  for (const onnx::ValueInfo& value : model_.graph().value_infos)
    if (value.name == node.outputs[0]) graph_.fields[value.field].removed = true;
}

}  // namespace oubli
