#include "oubli/onnx/edit.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "oubli/onnx/builder.h"
#include "oubli/onnx/schema.h"

namespace oubli::onnx {

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
      if (fields[i]->value != dims[i]) set_varint(*fields[i], dims[i]);
    }
    return;
  }
  for (Field* field : fields) field->removed = true;
  const std::vector<std::int64_t> values(dims.begin(), dims.end());
  tensor.add(packed_field(schema::tensor::kDims, values));
}

void set_raw_data(Message& tensor, const std::vector<std::byte>& bytes) {
  bool done = false;
  for (Field& field : tensor.fields) {
    switch (field.number) {
      case schema::tensor::kRawData:
        set_bytes(field, bytes);
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
  if (!done) tensor.add(bytes_field(schema::tensor::kRawData, bytes));
}

Editor::Editor(const Model& model)
    : model_(model),
      message_(Message::parse(model.bytes(), model.what())),
      graph_(open(message_.fields[model.graph_field()], model.what())),
      readers_(readers_of(model.graph())),
      external_(model) {}

Message& Editor::node_message(const Node& node) {
  return open(graph_.fields[node.field], model_.what());
}

Message& Editor::initializer_message(const TensorInfo& info) {
  return open(graph_.fields[info.field], model_.what());
}

Message& Editor::value_message(const Node& constant) {
  Message& attribute =
      open(node_message(constant).fields[constant.attribute("value")->field], model_.what());
  return open(*attribute.find(schema::attribute::kTensor), model_.what());
}

void Editor::put_list(const Node& node, const Attribute& attribute, std::uint32_t number,
                      Field packed, std::vector<Field> one_each) {
  std::vector<Field>& fields =
      open(node_message(node).fields[attribute.field], model_.what()).fields;
  const auto is_element = [&](const Field& field) { return field.number == number; };
  const auto first = std::ranges::find_if(fields, is_element);
  const std::ptrdiff_t place = first - fields.begin();
  const bool was_packed = number != schema::attribute::kStrings && first != fields.end() &&
                          first->type == WireType::bytes;
  std::erase_if(fields, is_element);
  if (was_packed) {
    fields.insert(fields.begin() + place, std::move(packed));
    return;
  }
  fields.insert(fields.begin() + place, std::make_move_iterator(one_each.begin()),
                std::make_move_iterator(one_each.end()));
}

void Editor::set_list(const Node& node, const Attribute& attribute, std::span<const float> values) {
  constexpr std::uint32_t kNumber = schema::attribute::kFloats;
  std::vector<Field> fields;
  for (const float value : values) fields.push_back(float_field(kNumber, value));
  put_list(node, attribute, kNumber, packed_field(kNumber, values), std::move(fields));
}

void Editor::set_list(const Node& node, const Attribute& attribute,
                      std::span<const std::int64_t> values) {
  constexpr std::uint32_t kNumber = schema::attribute::kInts;
  std::vector<Field> fields;
  for (const std::int64_t value : values)
    fields.push_back(varint_field(kNumber, static_cast<std::uint64_t>(value)));
  put_list(node, attribute, kNumber, packed_field(kNumber, values), std::move(fields));
}

void Editor::set_list(const Node& node, const Attribute& attribute,
                      std::span<const std::string> values) {
  constexpr std::uint32_t kNumber = schema::attribute::kStrings;
  std::vector<Field> fields;
  for (const std::string& value : values) fields.push_back(bytes_field(kNumber, value));
  put_list(node, attribute, kNumber, Field(), std::move(fields));
}

bool Editor::only_reader(const std::string& value, const Node& node) const {
  const auto found = readers_.find(value);
  if (found == readers_.end()) return true;
  const Readers& readers = found->second;
  return !readers.graph_output && !readers.subgraph && readers.nodes.size() == 1 &&
         &model_.graph().nodes[readers.nodes.front()] == &node;
}

void Editor::replace_constant(const Node& node, std::size_t input, const Constant& constant,
                              const Tensor& tensor, const std::vector<std::size_t>& stored_shape,
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
    const TensorInfo& info = *constant.initializer;
    replace_stored(info, initializer_message(info), tensor, stored_shape);
    return;
  }
  const Attribute* const value_attribute =
      constant.chain.empty() ? constant.constant_node->attribute("value") : nullptr;
  if (value_attribute != nullptr) {
    replace_stored(model_.tensor_info(value_attribute->tensor, value),
                   value_message(*constant.constant_node), tensor, stored_shape);
    return;
  }
  // Behind other nodes: the new tensor takes the name of what the last of them made.
  drop_producer(value);
  add_initializer(value, tensor, used_shape);
  set_value_info(value, used_shape);
}

void Editor::replace_stored(const TensorInfo& info, Message& stored, const Tensor& tensor,
                            const std::vector<std::size_t>& shape) {
  set_dims(stored, shape);
  set_value_info(info.name, shape);
  if (info.location.empty()) return set_raw_data(stored, tensor.bytes);
  const std::uint64_t old_size = info.bytes().value_or(0);
  // Other tensors keep bytes that they share; a single number may be spread over the classes.
  if (external_.is_shared(info) || tensor.bytes.size() > old_size) {
    set_raw_data(stored, tensor.bytes);
    return external_.release(info);
  }
  for (Field& field : stored.fields) {
    if (field.number != schema::tensor::kExternalData) continue;
    Message& entry = open(field, model_.what());
    const std::string_view key = entry.text_or(schema::entry::kKey, "");
    if (key == "length")
      set_text(*entry.find(schema::entry::kValue), std::to_string(tensor.bytes.size()));
    if (key == "checksum") field.removed = true;
  }
  external_.replace(info, tensor.bytes);
}

void Editor::keep_old(const std::string& value) {
  kept_old_ = true;
  note(
      fmt::format("'{}' is used elsewhere in the model too (tied weights): it is kept as it is, "
                  "the forgotten row with it",
                  value));
}

std::string Editor::fresh_name(const std::string& base) {
  std::string name = base + "_filtered";
  while (made_.contains(name) || readers_.contains(name) ||
         model_.graph().producer(name) != nullptr || model_.graph().initializer(name) != nullptr) {
    name += "_";
  }
  made_.insert(name);
  return name;
}

void Editor::add_initializer(const std::string& name, const Tensor& tensor,
                             const std::vector<std::size_t>& shape) {
  const TensorView view{tensor.dtype, shape, tensor.bytes, name};
  graph_.add(message_field(schema::graph::kInitializer, tensor_message(name, view)));
  if (model_.ir_version() >= 4) return;
  std::vector<Dim> dims;
  dims.reserve(shape.size());
  for (const std::size_t extent : shape) dims.emplace_back(static_cast<std::int64_t>(extent));
  graph_.add(message_field(schema::graph::kInput,
                           value_info_message(name, data_type_of(tensor.dtype), dims)));
}

void Editor::set_input(const Node& node, std::size_t input, const std::string& name) {
  std::size_t seen = 0;
  for (Field& field : node_message(node).fields) {
    if (field.number != schema::node::kInput) continue;
    if (seen++ == input) return set_text(field, name);
  }
}

void Editor::put_input(const Node& node, std::size_t input, const std::string& name) {
  if (input < node.inputs.size()) return set_input(node, input, name);
  Message& message = node_message(node);
  const auto last =
      std::find_if(message.fields.rbegin(), message.fields.rend(),
                   [](const Field& field) { return field.number == schema::node::kInput; });
  message.fields.insert(last.base(), bytes_field(schema::node::kInput, name));
}

void Editor::drop_producer(const std::string& value) {
  const Node* node = model_.graph().producer(value);
  if (node == nullptr) return;
  graph_.fields[node->field].removed = true;
  if (const Attribute* const stored = node->attribute("value");
      stored != nullptr && !stored->tensor.empty())
    external_.release(model_.tensor_info(stored->tensor, ""));
  for (const std::string& input : node->inputs) {
    const auto found = readers_.find(input);
    if (found == readers_.end()) continue;
    Readers& readers = found->second;
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

void Editor::make_identity(const Node& node, std::size_t input) {
  std::size_t inputs = 0, outputs = 0;
  for (Field& field : node_message(node).fields) {
    if (field.number == schema::node::kInput) field.removed = inputs++ != input;
    if (field.number == schema::node::kOutput) field.removed = outputs++ != 0;
    if (field.number == schema::node::kAttribute) field.removed = true;
    if (field.number == schema::node::kOpType) set_text(field, "Identity");
  }
  const auto index = static_cast<std::size_t>(&node - model_.graph().nodes.data());
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const auto found = readers_.find(node.inputs[i]);
    if (i == input || found == readers_.end()) continue;
    std::erase(found->second.nodes, index);
    if (found->second.count() != 0 || found->second.subgraph) continue;
    drop_initializer(node.inputs[i]);
    drop_producer(node.inputs[i]);
  }
}

void Editor::drop_initializer(const std::string& name) {
  const TensorInfo* info = model_.graph().initializer(name);
  if (info == nullptr) return;
  graph_.fields[info->field].removed = true;
  if (!info->location.empty()) external_.release(*info);
  for (const ValueInfo* const value : model_.graph().infos(name))
    graph_.fields[value->field].removed = true;
}

bool Editor::is_read(const std::string& value) const {
  const auto readers = readers_.find(value);
  return readers != readers_.end() && readers->second.count() != 0;
}

void Editor::set_extent(std::size_t value_info, std::size_t axis, std::size_t extent) {
  Message& info = open(graph_.fields[value_info], model_.what());
  Field* type = info.find(schema::value_info::kType);
  if (type == nullptr) return;
  Field* tensor = open(*type, model_.what()).find(schema::type::kTensorType);
  if (tensor == nullptr) return;
  Field* shape = open(*tensor, model_.what()).find(schema::type::kShape);
  if (shape == nullptr) return;
  std::size_t seen = 0;
  for (Field& field : open(*shape, model_.what()).fields) {
    if (field.number != schema::shape::kDim || seen++ != axis) continue;
    Field* number = open(field, model_.what()).find(schema::shape::kDimValue);
    if (number != nullptr && number->value != extent) set_varint(*number, extent);
  }
}

void Editor::set_value_info(const std::string& name, const std::vector<std::size_t>& shape) {
  for (const ValueInfo* const info : model_.graph().infos(name)) {
    if (!info->shape || info->shape->size() != shape.size()) continue;
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      set_extent(info->field, axis, shape[axis]);
  }
}

void Editor::insert_after(const Node& node, Message message) {
  pending_.emplace_back(node.field, std::move(message));
}

Patches Editor::finish() {
  std::ranges::stable_sort(pending_, {}, [](const auto& entry) { return entry.first; });
  for (auto entry = pending_.rbegin(); entry != pending_.rend(); ++entry)
    graph_.fields.insert(graph_.fields.begin() + static_cast<std::ptrdiff_t>(entry->first) + 1,
                         message_field(schema::graph::kNode, std::move(entry->second)));
  pending_.clear();
  std::vector<std::string> kept;
  Patches patches = external_.patches(kept);
  for (const std::string& name : kept) keep_old(name);
  return patches;
}

void Editor::drop_dead_node(const Node& node) {
  graph_.fields[node.field].removed = true;
  if (const Attribute* const value = node.attribute("value");
      value != nullptr && !value->tensor.empty())
    external_.release(model_.tensor_info(value->tensor, ""));
  const auto index = static_cast<std::size_t>(&node - model_.graph().nodes.data());
  for (const std::string& input : node.inputs)
    if (const auto readers = readers_.find(input); readers != readers_.end())
      std::erase(readers->second.nodes, index);
  for (const ValueInfo* const value : model_.graph().infos(node.outputs[0]))
    graph_.fields[value->field].removed = true;
}

}  // namespace oubli::onnx
