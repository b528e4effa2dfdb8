#include "oubli/model/onnx/probe.h"

#include <algorithm>
#include <set>

#include "oubli/onnx/builder.h"
#include "oubli/onnx/external.h"
#include "oubli/onnx/schema.h"

namespace oubli {

namespace {

namespace schema = onnx::schema;
using onnx::Message;
using onnx::Model;

void add_output(Model& model, const std::string& name) {
  for (const onnx::ValueInfo& output : model.graph().outputs) {
    if (output.name == name) return;
  }
  Message info;  // the type is inferred
  info.add(onnx::bytes_field(schema::value_info::kName, name));
  model.graph_message().add(onnx::message_field(schema::graph::kOutput, std::move(info)));
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

void retype_value(Model& model, const onnx::ValueInfo& value) {
  if (value.element_type != kBfloat16) return;
  Message& info = onnx::open(model.graph_message().fields[value.field], model.what());
  Message& type = onnx::open(*info.find(schema::value_info::kType), model.what());
  Message& tensor = onnx::open(*type.find(schema::type::kTensorType), model.what());
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

// `original` knows where external data is now.
void convert_to_float(Model& model, const Model& original) {
  Message& graph = model.graph_message();
  for (const onnx::TensorInfo& info : original.graph().initializers) {
    if (info.data_type != kBfloat16) continue;
    const Tensor tensor = to_float(original.load(info));
    graph.fields[info.field] = onnx::message_field(
        schema::graph::kInitializer, onnx::tensor_message(info.name, tensor.view(info.name)));
  }
  for (const auto* values :
       {&model.graph().inputs, &model.graph().outputs, &model.graph().value_infos}) {
    for (const onnx::ValueInfo& value : *values) retype_value(model, value);
  }
  for (const onnx::Node& node : model.graph().nodes) {
    for (const onnx::Attribute& attribute : node.attributes) {
      const bool to_bfloat16 = casts_to_bfloat16(node, attribute);
      if (!to_bfloat16 && !is_bfloat16_constant(model, attribute)) continue;
      Message& message = onnx::open(
          onnx::open(graph.fields[node.field], model.what()).fields[attribute.field], model.what());
      if (to_bfloat16) {
        onnx::set_varint(*message.find(schema::attribute::kInt), kFloat);
      } else {
        const Tensor tensor = to_float(original.load(model.tensor_info(attribute.tensor, "")));
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
void point_to_side_files(Model& model, const Model& original) {
  for (const std::string& location : onnx::external_locations(original.bytes(), original.what())) {
    const std::string file =
        original.side_path(location).lexically_relative(original.folder()).string();
    if (file != location && !file.empty())
      onnx::rename_location(model.message(), location, file, model.what());
  }
}

}  // namespace

OnnxProbe make_probe(const OnnxModel& file) {
  const Model& original = file.model();
  OnnxProbe probe;
  Model copy(original.bytes(), original.what(), original.folder());
  probe.as_float = uses_bfloat16(original);
  if (probe.as_float) convert_to_float(copy, original);
  point_to_side_files(copy, original);
  probe.features = file.onnx_head().features;
  probe.logits = file.onnx_head().logits;
  add_output(copy, probe.features);
  add_output(copy, probe.logits);
  probe.bytes = copy.message().encode();
  return probe;
}

}  // namespace oubli
