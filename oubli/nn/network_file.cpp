#include "oubli/nn/network_file.h"

#include <nlohmann/json.hpp>
#include <span>

#include "oubli/base/error.h"
#include "oubli/nn/graph.h"
#include "oubli/onnx/builder.h"

namespace oubli::nn {
namespace {

using nlohmann::json;

constexpr const char* kNetworkKey = "oubli.network";
constexpr const char* kNamesKey = "class_names";

std::string value_name(const Graph& graph, std::size_t value) {
  if (value == 0) return "image";
  if (value == graph.ops.back().output) return "logits";
  return "value." + std::to_string(value);
}

struct NodeText {
  std::string op_type;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  onnx::Attributes attributes;
};

onnx::Attributes window(const Op& op) {
  const auto number = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  return {{"kernel_shape", std::vector<std::int64_t>{number(op.kernel), number(op.kernel)}},
          {"strides", std::vector<std::int64_t>{number(op.stride), number(op.stride)}},
          {"pads", std::vector<std::int64_t>{number(op.pad_top), number(op.pad_left),
                                             number(op.pad_bottom), number(op.pad_right)}}};
}

// The nodes of a graph, in order. A fused relu is a node of its own.
std::vector<NodeText> nodes_of(const Graph& graph) {
  std::vector<NodeText> nodes;
  const auto parameter = [&](std::size_t p) { return graph.parameters[p].name; };
  for (const Op& op : graph.ops) {
    const std::string output = value_name(graph, op.output);
    const std::string result = op.relu ? output + ".linear" : output;
    const auto add = [&](const char* type, std::vector<std::string> inputs,
                         onnx::Attributes attributes = {}) {
      nodes.push_back({type, std::move(inputs), {result}, std::move(attributes)});
    };
    std::vector<std::string> inputs = {value_name(graph, op.input)};
    switch (op.kind) {
      case OpKind::conv:
        inputs.push_back(parameter(op.weight));
        if (op.bias != kNone) inputs.push_back(parameter(op.bias));
        add("Conv", inputs, window(op));
        break;
      case OpKind::dense:
        if (!graph.values[op.input].flat) {
          nodes.push_back({"Flatten", inputs, {output + ".flat"}, {{"axis", std::int64_t{1}}}});
          inputs = {output + ".flat"};
        }
        inputs.push_back(parameter(op.weight));
        if (op.bias != kNone) inputs.push_back(parameter(op.bias));
        add("Gemm", inputs, {{"transB", std::int64_t{1}}});
        break;
      case OpKind::max_pool:
        add("MaxPool", inputs, window(op));
        break;
      case OpKind::global_max_pool:
        add("GlobalMaxPool", inputs);
        break;
      case OpKind::global_average_pool:
        add("GlobalAveragePool", inputs);
        break;
      case OpKind::batch_norm:
        for (const std::size_t p : {op.weight, op.bias, op.mean, op.variance})
          inputs.push_back(parameter(p));
        add("BatchNormalization", inputs, {{"epsilon", kBatchNormEpsilon}});
        break;
      case OpKind::relu:
        add("Relu", inputs);
        break;
      case OpKind::sigmoid:
        add("Sigmoid", inputs);
        break;
      case OpKind::add:
        inputs.push_back(value_name(graph, op.other));
        add("Add", inputs);
        break;
    }
    if (op.relu) nodes.push_back({"Relu", {result}, {output}, {}});
  }
  return nodes;
}

bool same_attribute(const onnx::Attribute& found, const onnx::AttributeValue& wanted) {
  if (const auto* i = std::get_if<std::int64_t>(&wanted)) return found.i == *i;
  if (const auto* f = std::get_if<float>(&wanted)) return found.f == *f;
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&wanted))
    return found.ints == *list;
  return false;
}

bool same_node(const onnx::Node& found, const NodeText& wanted) {
  if (found.op_type != wanted.op_type || !found.domain.empty() || found.inputs != wanted.inputs ||
      found.outputs != wanted.outputs || found.attributes.size() != wanted.attributes.size())
    return false;
  for (const auto& [name, value] : wanted.attributes) {
    const onnx::Attribute* attribute = found.attribute(name);
    if (attribute == nullptr || !same_attribute(*attribute, value)) return false;
  }
  return true;
}

std::vector<float> floats_of(const onnx::Model& model, const Parameter& wanted) {
  const onnx::TensorInfo* info = model.graph().initializer(wanted.name);
  if (info == nullptr) fail(ErrorCode::bad_input, "{}: no tensor '{}'", model.what(), wanted.name);
  const SharedTensor tensor = model.load(*info);
  if (tensor.dtype != DType::f32 || tensor.shape != wanted.shape)
    fail(ErrorCode::bad_input, "{}: {} is {}, which the layers do not want", model.what(),
         wanted.name, describe(tensor));
  std::vector<float> values(tensor.count());
  decode(DType::f32, tensor.bytes, std::span(values));
  return values;
}

}  // namespace

void save_network(const Network& network, const std::vector<std::string>& class_names,
                  const std::filesystem::path& path, bool replace) {
  if (class_names.size() != network.classes())
    fail(ErrorCode::usage, "{}: {} class names for {} classes", path.string(), class_names.size(),
         network.classes());
  const Graph graph = compile(network.spec());
  onnx::ModelBuilder builder(network.spec().name.empty() ? "network" : network.spec().name);
  const auto number = [](std::size_t n) { return onnx::Dim(static_cast<std::int64_t>(n)); };
  builder.input("image", DType::f32,
                {"batch", number(network.spec().channels), number(network.spec().height),
                 number(network.spec().width)});
  for (const Parameter& parameter : network.parameters())
    builder.initializer(
        parameter.name,
        {DType::f32, parameter.shape, std::as_bytes(std::span(parameter.values)), parameter.name});
  for (const NodeText& node : nodes_of(graph))
    builder.node(node.op_type, node.inputs, node.outputs, node.attributes, node.outputs.front());
  builder.output("logits", DType::f32, {"batch", number(network.classes())});
  builder.metadata(kNamesKey, json(class_names).dump());
  json layers = to_json(network.spec());
  layers.erase("classes");  // the head says; so nothing here is outdated when it is filtered
  builder.metadata(kNetworkKey, layers.dump());
  builder.save(path, replace);
}

std::optional<NamedNetwork> network_in(const onnx::Model& model) {
  const onnx::MetadataEntry* entry = model.metadata(kNetworkKey);
  if (entry == nullptr) return std::nullopt;
  const onnx::TensorInfo* head = model.graph().initializer("head.weight");
  if (head == nullptr || head->dims.size() != 2 || head->dims[0] <= 0)
    fail(ErrorCode::bad_input, "{}: no tensor 'head.weight' of two dimensions", model.what());
  json layers = json::parse(entry->value, nullptr, false);
  if (!layers.is_object())
    fail(ErrorCode::bad_input, "{}: metadata '{}' is not JSON", model.what(), kNetworkKey);
  layers["classes"] = head->dims[0];
  NetworkSpec spec = network_from_json(layers, model.what() + ": metadata '" + kNetworkKey + "'");

  const Graph graph = compile(spec);
  const std::vector<NodeText> wanted = nodes_of(graph);
  const std::vector<onnx::Node>& found = model.graph().nodes;
  bool same = found.size() == wanted.size();
  for (std::size_t i = 0; same && i < wanted.size(); ++i) same = same_node(found[i], wanted[i]);
  if (!same)
    fail(ErrorCode::bad_input,
         "{}: its graph is not the one of its metadata '{}': it was changed since it was written; "
         "run it with ONNX Runtime (oubli get-runtime)",
         model.what(), kNetworkKey);
  std::vector<Parameter> parameters = graph.parameters;
  for (Parameter& parameter : parameters) parameter.values = floats_of(model, parameter);

  std::vector<std::string> names;
  if (const onnx::MetadataEntry* list = model.metadata(kNamesKey); list != nullptr) {
    const json parsed = json::parse(list->value, nullptr, false);
    if (parsed.is_array())
      for (const json& name : parsed)
        names.push_back(name.is_string() ? name.get<std::string>() : "");
  }
  if (names.size() != spec.classes) {
    names.clear();
    for (std::size_t c = 0; c < spec.classes; ++c) names.push_back(std::to_string(c));
  }
  return NamedNetwork{Network(std::move(spec), std::move(parameters)), std::move(names)};
}

NamedNetwork load_network(const std::filesystem::path& path) {
  const onnx::Model model(path);
  std::optional<NamedNetwork> network = network_in(model);
  if (!network)
    fail(ErrorCode::bad_input,
         "{}: not a network that oubli trained; other models are run with ONNX Runtime",
         path.string());
  return std::move(*network);
}

}  // namespace oubli::nn
