#include "oubli/model/onnx/labels.h"

#include <algorithm>

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
  const auto readers = onnx::readers_of(model.graph());
  for (const std::string& table : tables) {
    const onnx::Readers& all = readers.at(table);
    if (all.graph_output || all.subgraph ||
        std::ranges::count(tables, table) != static_cast<std::ptrdiff_t>(all.nodes.size())) {
      fail(ErrorCode::unfilterable,
           "{}: the labels '{}' are used elsewhere too, where all of them may be needed",
           model.what(), table);
    }
  }
}

std::vector<std::string> label_texts(const Model& model, const std::string& value,
                                     std::size_t classes) {
  std::span<const std::byte> bytes;
  if (const onnx::TensorInfo* stored = model.graph().initializer(value)) {
    bytes = stored->message;
  } else if (const onnx::Node* maker = model.graph().producer(value);
             maker != nullptr && maker->op_type == "Constant") {
    if (const onnx::Attribute* attribute = maker->attribute("value")) bytes = attribute->tensor;
  }
  std::vector<std::string> texts;
  const onnx::Message tensor = onnx::Message::parse(bytes, model.what());
  for (const onnx::Field& field : tensor.fields)
    if (field.number == onnx::schema::tensor::kStringData)
      texts.emplace_back(onnx::text_of(field, model.what()));
  if (texts.size() != classes) texts.clear();
  return texts;
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
    Message& message =
        onnx::open(editor.node_message(*maker).fields[attribute->field], model.what());
    stored = &onnx::open(*message.find(schema::attribute::kTensor), model.what());
    info = model.tensor_info(attribute->tensor, value);
  }
  std::vector<std::size_t> shape(info.dims.begin(), info.dims.end());
  const auto axis = std::ranges::find(shape, classes);
  const bool vector = std::ranges::count_if(shape, [](std::size_t n) { return n != 1; }) == 1;
  if (axis == shape.end() || !vector) {
    fail(ErrorCode::unfilterable, "{}: the labels '{}' are not one per class", model.what(), value);
  }
  *axis = classes - forget.size();
  set_dims(*stored, shape);
  editor.set_value_info(value, shape);
  if (!onnx::dtype_of(info.data_type)) {  // strings
    std::size_t index = 0;
    for (Field& field : stored->fields) {
      if (field.number != schema::tensor::kStringData) continue;
      if (is_forgotten(index++)) field.removed = true;
    }
    return;
  }
  const SharedTensor loaded = model.load(info);
  const std::size_t size = size_of(loaded.dtype);
  std::vector<std::byte> kept;
  for (std::size_t i = 0; i < classes; ++i) {
    if (is_forgotten(i)) continue;
    const auto element = loaded.bytes.subspan(i * size, size);
    kept.insert(kept.end(), element.begin(), element.end());
  }
  set_raw_data(*stored, kept);
  // 0, 1, 2, ...: these are no names but the old numbers, which stay what callers know.
  editor.note(fmt::format("labels '{}' keep their numbers, without the forgotten ones", value));
}

}  // namespace oubli
