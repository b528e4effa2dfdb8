#include "oubli/model/onnx/probe.h"

#include <algorithm>
#include <map>

#include "oubli/model/onnx/classifier.h"
#include "oubli/onnx/builder.h"
#include "oubli/onnx/edit.h"
#include "oubli/onnx/external.h"
#include "oubli/onnx/schema.h"

namespace oubli {

namespace {

namespace schema = onnx::schema;
using onnx::Message;
using onnx::Model;

void add_output(onnx::Editor& edit, const std::string& name) {
  if (edit.model().graph().is_output(name)) return;
  Message info;  // the type is inferred
  info.add(onnx::bytes_field(schema::value_info::kName, name));
  edit.graph().add(onnx::message_field(schema::graph::kOutput, std::move(info)));
}

// The value itself or, of 8-bit numbers, what they stand for, from behind `node`.
std::string as_float_value(onnx::Editor& edit, const std::string& value,
                           const std::optional<OnnxScaled>& scaled, const onnx::Node& node) {
  if (!scaled) return value;
  std::vector<std::string> inputs{value, scaled->scale};
  if (!scaled->zero.empty()) inputs.push_back(scaled->zero);
  std::string name = edit.fresh_name(value + "_float");
  edit.insert_after(node, onnx::node_message("DequantizeLinear", inputs, {name}, {}, ""));
  return name;
}

Tensor to_float(const TensorView& view) {
  std::vector<double> values(view.count());
  decode(view.dtype, view.bytes, values);
  Tensor tensor = to_tensor(values, DType::f32);
  tensor.shape = view.shape;
  return tensor;
}

const std::uint64_t kBfloat16 = onnx::data_type_of(DType::bf16);
const std::uint64_t kFloat = onnx::data_type_of(DType::f32);

void retype_value(onnx::Editor& edit, const onnx::ValueInfo& value) {
  if (value.element_type != kBfloat16) return;
  const std::string& what = edit.model().what();
  Message& info = onnx::open(edit.graph().fields[value.field], what);
  Message& type = onnx::open(*info.find(schema::value_info::kType), what);
  Message& tensor = onnx::open(*type.find(schema::type::kTensorType), what);
  onnx::set_varint(*tensor.find(schema::type::kElemType), kFloat);
}

bool casts_to_bfloat16(const onnx::Node& node, const onnx::Attribute& attribute) {
  return node.op_type == "Cast" && attribute.name == "to" &&
         attribute.i == static_cast<std::int64_t>(kBfloat16);
}
bool is_bfloat16_constant(const Model& model, const onnx::Attribute& attribute) {
  return !attribute.tensor.empty() &&
         model.tensor_info(attribute.tensor, "").data_type == kBfloat16;
}

void convert_to_float(onnx::Editor& edit) {
  const Model& model = edit.model();
  for (const onnx::TensorInfo& info : model.graph().initializers) {
    if (info.data_type != kBfloat16) continue;
    const Tensor tensor = to_float(model.load(info));
    edit.graph().fields[info.field] = onnx::message_field(
        schema::graph::kInitializer, onnx::tensor_message(info.name, tensor.view(info.name)));
  }
  for (const auto* values :
       {&model.graph().inputs, &model.graph().outputs, &model.graph().value_infos}) {
    for (const onnx::ValueInfo& value : *values) retype_value(edit, value);
  }
  for (const onnx::Node& node : model.graph().nodes) {
    for (const onnx::Attribute& attribute : node.attributes) {
      const bool to_bfloat16 = casts_to_bfloat16(node, attribute);
      if (!to_bfloat16 && !is_bfloat16_constant(model, attribute)) continue;
      Message& message = onnx::open(edit.node_message(node).fields[attribute.field], model.what());
      if (to_bfloat16) {
        onnx::set_varint(*message.find(schema::attribute::kInt), kFloat);
      } else {
        const Tensor tensor = to_float(model.load(model.tensor_info(attribute.tensor, "")));
        *message.find(schema::attribute::kTensor) = onnx::message_field(
            schema::attribute::kTensor, onnx::tensor_message("", tensor.view("constant")));
      }
    }
  }
}

bool uses_bfloat16(const Model& model) {
  const auto is = [](std::uint64_t type) { return type == kBfloat16; };
  return std::ranges::any_of(model.graph().initializers, is, &onnx::TensorInfo::data_type) ||
         std::ranges::any_of(model.graph().inputs, is, &onnx::ValueInfo::element_type) ||
         std::ranges::any_of(model.graph().nodes, [&](const onnx::Node& node) {
           return std::ranges::any_of(node.attributes, [&](const onnx::Attribute& attribute) {
             return casts_to_bfloat16(node, attribute) || is_bfloat16_constant(model, attribute);
           });
         });
}

// A model just written names side files that are not at their place yet.
void point_to_side_files(onnx::Editor& edit) {
  const Model& model = edit.model();
  std::map<std::string, std::string, std::less<>> names;
  for (const std::string& location : onnx::external_locations(model)) {
    const std::string file = model.side_path(location).lexically_relative(model.folder()).string();
    if (file != location && !file.empty()) names.emplace(location, file);
  }
  onnx::rename_locations(edit.message(), names, model.what());
}

}  // namespace

OnnxProbe make_probe(const OnnxModel& file, std::span<const std::string> values) {
  OnnxProbe probe;
  onnx::Editor copy(file.model());
  probe.as_float = uses_bfloat16(file.model());
  if (probe.as_float) convert_to_float(copy);
  point_to_side_files(copy);
  const OnnxHead& head = file.onnx_head();
  probe.features = as_float_value(copy, head.features, head.features_in_8_bits, *head.node);
  const onnx::Node& last = head.bias_node != nullptr ? *head.bias_node : *head.node;
  probe.logits = head.logits.empty()
                     ? add_raw_scores(copy, *head.node)
                     : as_float_value(copy, head.logits, head.logits_in_8_bits, last);
  add_output(copy, probe.features);
  add_output(copy, probe.logits);
  for (const std::string& value : values)
    if (value != probe.features && value != probe.logits) add_output(copy, value);
  (void)copy.finish();
  probe.bytes = copy.message().encode();
  return probe;
}

}  // namespace oubli
