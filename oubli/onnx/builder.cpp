#include "oubli/onnx/builder.h"

#include "oubli/base/file.h"
#include "oubli/base/version.h"
#include "oubli/onnx/model.h"
#include "oubli/onnx/schema.h"

namespace oubli::onnx {

namespace {

constexpr std::uint64_t kIrVersion = 8;  // what ONNX 1.12, Debian 12's, reads
constexpr std::uint64_t kOpset = 17;

template <typename... Cases>
struct Overload : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overload(Cases...) -> Overload<Cases...>;

}  // namespace

Message attribute_message(const std::string& name, const AttributeValue& value) {
  using namespace schema::attribute;
  Message message;
  message.add(bytes_field(kName, name));
  const std::uint64_t type =
      std::visit(Overload{[&](std::int64_t i) {
                            message.add(varint_field(kInt, static_cast<std::uint64_t>(i)));
                            return kTypeInt;
                          },
                          [&](float f) {
                            message.add(float_field(kFloat, f));
                            return kTypeFloat;
                          },
                          [&](const std::string& s) {
                            message.add(bytes_field(kString, s));
                            return kTypeString;
                          },
                          [&](const std::vector<std::int64_t>& ints) {
                            message.add(packed_field(kInts, ints));
                            return kTypeInts;
                          },
                          [&](const std::vector<float>& floats) {
                            message.add(packed_field(kFloats, floats));
                            return kTypeFloats;
                          }},
                 value);
  message.add(varint_field(kType, type));
  return message;
}

Message tensor_message(std::string_view name, const TensorView& tensor) {
  using namespace schema::tensor;
  Message message;
  std::vector<std::int64_t> dims(tensor.shape.begin(), tensor.shape.end());
  if (!dims.empty()) message.add(packed_field(kDims, dims));
  message.add(varint_field(kDataType, data_type_of(tensor.dtype)));
  message.add(bytes_field(kName, name));
  message.add(bytes_field(kRawData, tensor.bytes));
  return message;
}

Message value_info_message(std::string_view name, std::uint64_t element_type,
                           const std::vector<Dim>& shape) {
  Message dims;
  for (const Dim& dim : shape) {
    Message one;
    if (const auto* number = std::get_if<std::int64_t>(&dim)) {
      one.add(varint_field(schema::shape::kDimValue, static_cast<std::uint64_t>(*number)));
    } else {
      one.add(bytes_field(schema::shape::kDimParam, std::get<std::string>(dim)));
    }
    dims.add(message_field(schema::shape::kDim, std::move(one)));
  }
  Message tensor;
  tensor.add(varint_field(schema::type::kElemType, element_type));
  tensor.add(message_field(schema::type::kShape, std::move(dims)));
  Message type;
  type.add(message_field(schema::type::kTensorType, std::move(tensor)));
  Message message;
  message.add(bytes_field(schema::value_info::kName, name));
  message.add(message_field(schema::value_info::kType, std::move(type)));
  return message;
}

Message node_message(std::string_view op_type, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs, const Attributes& attributes,
                     std::string_view name) {
  Message message;
  for (const std::string& value : inputs) message.add(bytes_field(schema::node::kInput, value));
  for (const std::string& value : outputs) message.add(bytes_field(schema::node::kOutput, value));
  if (!name.empty()) message.add(bytes_field(schema::node::kName, name));
  message.add(bytes_field(schema::node::kOpType, op_type));
  for (const auto& [attribute, value] : attributes) {
    message.add(message_field(schema::node::kAttribute, attribute_message(attribute, value)));
  }
  return message;
}

ModelBuilder::ModelBuilder(std::string_view graph_name) {
  graph_.add(bytes_field(schema::graph::kName, graph_name));
}

void ModelBuilder::input(std::string_view name, DType type, const std::vector<Dim>& shape) {
  graph_.add(
      message_field(schema::graph::kInput, value_info_message(name, data_type_of(type), shape)));
}

void ModelBuilder::output(std::string_view name, DType type, const std::vector<Dim>& shape) {
  graph_.add(
      message_field(schema::graph::kOutput, value_info_message(name, data_type_of(type), shape)));
}

void ModelBuilder::initializer(std::string_view name, const TensorView& tensor) {
  graph_.add(message_field(schema::graph::kInitializer, tensor_message(name, tensor)));
}

void ModelBuilder::node(std::string_view op_type, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const Attributes& attributes,
                        std::string_view name) {
  graph_.add(message_field(schema::graph::kNode,
                           node_message(op_type, inputs, outputs, attributes, name)));
}

void ModelBuilder::metadata(std::string_view key, std::string_view value) {
  metadata_.emplace_back(key, value);
}

Message ModelBuilder::assemble() {
  Message model;
  model.add(varint_field(schema::model::kIrVersion, kIrVersion));
  model.add(bytes_field(schema::model::kProducerName, "oubli"));
  model.add(bytes_field(schema::model::kProducerVersion, std::string_view(kVersion)));
  // The graph is lent to the message, not copied: weights may be large.
  model.add(message_field(schema::model::kGraph, std::move(graph_)));
  Message opset;
  opset.add(bytes_field(schema::opset::kDomain, std::string_view()));
  opset.add(varint_field(schema::opset::kVersion, kOpset));
  model.add(message_field(schema::model::kOpsetImport, std::move(opset)));
  for (const auto& [key, value] : metadata_) {
    Message entry;
    entry.add(bytes_field(schema::entry::kKey, key));
    entry.add(bytes_field(schema::entry::kValue, value));
    model.add(message_field(schema::model::kMetadata, std::move(entry)));
  }
  return model;
}

std::vector<std::byte> ModelBuilder::encode() {
  Message model = assemble();
  std::vector<std::byte> bytes = model.encode();
  graph_ = std::move(*model.find(schema::model::kGraph)->message);
  return bytes;
}

void ModelBuilder::save(const std::filesystem::path& path, bool replace) {
  Message model = assemble();
  AtomicFile file(path, replace);
  model.write([&](std::span<const std::byte> piece) { file.write(piece); });
  file.commit();
  graph_ = std::move(*model.find(schema::model::kGraph)->message);
}

}  // namespace oubli::onnx
