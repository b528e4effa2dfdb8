#include "oubli/model/onnx/labels.h"

#include <algorithm>
#include <map>

#include "oubli/model/onnx/axes.h"
#include "oubli/onnx/constants.h"
#include "oubli/onnx/edit.h"
#include "oubli/onnx/schema.h"

namespace oubli {

namespace schema = onnx::schema;
using onnx::Field;
using onnx::Message;
using onnx::Model;
using onnx::Node;

void check_labels(const Model& model, const Node& node, std::size_t classes) {
  const std::string& value = node.inputs[0];
  const onnx::TensorInfo* initializer = model.graph().initializer(value);
  const Node* maker = model.graph().producer(value);
  const onnx::Attribute* stored = maker == nullptr ? nullptr : maker->attribute("value");
  if (initializer == nullptr && (stored == nullptr || maker->op_type != "Constant")) {
    refuse_node(model, node,
                fmt::format("the labels '{}' are computed or listed in an attribute, wanted a "
                            "stored tensor",
                            value));
  }
  const std::vector<std::int64_t> dims =
      initializer != nullptr ? initializer->dims : model.tensor_info(stored->tensor, value).dims;
  const std::size_t axis =
      axis_in(node.op_type == "Gather" ? node.int_or("axis", 0) : -1, dims.size());
  const auto many = std::ranges::count_if(dims, [](std::int64_t extent) { return extent != 1; });
  if (axis >= dims.size() || dims[axis] != static_cast<std::int64_t>(classes) || many != 1) {
    refuse_node(model, node, fmt::format("the labels '{}' are not one per class", value));
  }
}

void check_label_readers(const Model& model, const std::vector<std::string>& tables) {
  if (tables.empty()) return;
  const auto readers = onnx::readers_of(model.graph());
  std::map<std::string_view, std::size_t> uses;
  for (const std::string& table : tables) ++uses[table];
  for (const auto& [table, count] : uses) {
    const onnx::Readers& all = readers.find(table)->second;
    if (all.graph_output || all.subgraph || count != all.nodes.size()) {
      fail(ErrorCode::unfilterable,
           "{}: the labels '{}' are used elsewhere too, where all of them may be needed",
           model.what(), table);
    }
  }
}

OnnxLabels stored_labels(const Model& model, const std::string& value, std::size_t classes) {
  OnnxLabels labels;
  std::span<const std::byte> bytes;
  if (const onnx::TensorInfo* stored = model.graph().initializer(value)) {
    bytes = stored->message;
  } else if (const Node* maker = model.graph().producer(value);
             maker != nullptr && maker->op_type == "Constant") {
    if (const onnx::Attribute* attribute = maker->attribute("value")) bytes = attribute->tensor;
  }
  const Message tensor = Message::parse(bytes, model.what());
  for (const Field& field : tensor.fields)
    if (field.number == schema::tensor::kStringData)
      labels.texts.emplace_back(onnx::text_of(field, model.what()));
  if (labels.texts.empty())
    if (auto numbers = onnx::constant_ints(model, value)) labels.numbers = std::move(*numbers);
  if (labels.size() != classes) return {};
  return labels;
}

void cut_labels(onnx::Editor& editor, const std::string& value, std::size_t classes,
                std::span<const std::size_t> forget) {
  const Model& model = editor.model();
  const auto is_forgotten = [&](std::size_t index) {
    return std::ranges::find(forget, index) != forget.end();
  };
  const onnx::TensorInfo* initializer = model.graph().initializer(value);
  const Node* maker = model.graph().producer(value);
  const onnx::Attribute* attribute = maker == nullptr ? nullptr : maker->attribute("value");
  if (initializer == nullptr && (attribute == nullptr || maker->op_type != "Constant")) {
    fail(ErrorCode::unfilterable, "{}: the labels '{}' are computed, wanted stored ones",
         model.what(), value);
  }
  Message* stored = nullptr;
  onnx::TensorInfo info;
  if (initializer != nullptr) {
    stored = &editor.initializer_message(*initializer);
    info = *initializer;
  } else {
    stored = &editor.value_message(*maker);
    info = model.tensor_info(attribute->tensor, value);
  }
  std::vector<std::size_t> shape(info.dims.begin(), info.dims.end());
  const auto axis = std::ranges::find(shape, classes);
  const bool vector = std::ranges::count_if(shape, [](std::size_t n) { return n != 1; }) == 1;
  if (axis == shape.end() || !vector) {
    fail(ErrorCode::unfilterable, "{}: the labels '{}' are not one per class", model.what(), value);
  }
  *axis = classes - forget.size();
  if (!onnx::dtype_of(info.data_type)) {  // strings
    set_dims(*stored, shape);
    editor.set_value_info(value, shape);
    std::size_t index = 0;
    for (Field& field : stored->fields) {
      if (field.number != schema::tensor::kStringData) continue;
      if (is_forgotten(index++)) field.removed = true;
    }
    return;
  }
  const SharedTensor loaded = model.load(info);
  const std::size_t size = size_of(loaded.dtype);
  Tensor kept{loaded.dtype, shape, {}};
  for (std::size_t i = 0; i < classes; ++i) {
    if (is_forgotten(i)) continue;
    const auto element = loaded.bytes.subspan(i * size, size);
    kept.bytes.insert(kept.bytes.end(), element.begin(), element.end());
  }
  editor.replace_stored(info, *stored, kept, shape);
  // 0, 1, 2, ...: these are no names but the old numbers, which stay what callers know.
  editor.note(fmt::format("labels '{}' keep their numbers, without the forgotten ones", value));
}

}  // namespace oubli
