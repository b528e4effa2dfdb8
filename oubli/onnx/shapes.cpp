#include "oubli/onnx/shapes.h"

#include <algorithm>

#include "oubli/base/error.h"
#include "oubli/onnx/constants.h"
#include "oubli/onnx/shape_rules.h"

namespace oubli::onnx {
namespace {

using Extent = Shapes::Extent;
using Shape = Shapes::Shape;
using Entry = Shapes::Entry;

}  // namespace

Shapes::Shapes(const Model& model) : model_(model) {
  const Graph& graph = model.graph();
  for (const TensorInfo& tensor : graph.initializers) {
    if (tensor.dims.size() > kHighestRank) continue;
    Shape shape;
    for (const std::int64_t dim : tensor.dims) shape.push_back({dim, false});
    shapes_[tensor.name] = std::move(shape);
  }
  for (const ValueInfo& input : graph.inputs) {
    if (shapes_.contains(input.name) || !input.shape || input.shape->empty()) continue;
    if (!input.shape->front().symbol.empty()) batch_symbols_.insert(input.shape->front().symbol);
    declare(input);
    const auto declared = declared_.find(input.name);
    if (declared == declared_.end()) continue;
    declared->second.front().batch = true;
    shapes_[input.name] = declared->second;
  }
  for (const auto* infos : {&graph.value_infos, &graph.outputs}) {
    for (const ValueInfo& info : *infos) declare(info);
  }
  for (const Node& node : graph.nodes) infer(node);
}

const Shape* Shapes::shape(std::string_view value) const {
  const auto found = shapes_.find(value);
  return found == shapes_.end() ? nullptr : &found->second;
}

const std::vector<Entry>* Shapes::entries(std::string_view value) const {
  const auto found = entries_.find(value);
  return found == entries_.end() ? nullptr : &found->second;
}

std::optional<std::vector<Entry>> Shapes::entries(const Node& node, std::size_t input) const {
  if (input >= node.inputs.size()) return std::nullopt;
  if (const std::vector<Entry>* computed = entries(node.inputs[input])) return *computed;
  const auto ints = constant_ints(model_, node.inputs[input]);
  if (!ints) return std::nullopt;
  std::vector<Entry> result;
  for (const std::int64_t number : *ints) {
    result.push_back({{number, false}, "", 0, &node, input, result.size()});
  }
  return result;
}

void Shapes::declare(const ValueInfo& info) {
  if (!info.shape || info.shape->size() > kHighestRank) return;
  Shape shape;
  for (const Dimension& dim : *info.shape) {
    const bool known = dim.value && *dim.value > 0;  // 0 and -1 stand for unknown in some files
    const bool batch = !dim.symbol.empty() && batch_symbols_.contains(dim.symbol);
    shape.push_back({known ? dim.value : std::nullopt, batch});
  }
  declared_[info.name] = std::move(shape);
}

void Shapes::set(const std::string& value, std::optional<Shape> inferred) {
  if (value.empty()) return;
  const auto declared = declared_.find(value);
  if (inferred && inferred->size() > kHighestRank) inferred.reset();
  if (declared != declared_.end()) {
    if (!inferred) {
      inferred = declared->second;
    } else if (inferred->size() != declared->second.size()) {
      return;
    } else {
      for (std::size_t i = 0; i < inferred->size(); ++i) {
        Extent& extent = (*inferred)[i];
        if (!extent.value) extent.value = declared->second[i].value;
        extent.batch = extent.batch || declared->second[i].batch;
      }
    }
  }
  if (inferred) shapes_[value] = std::move(*inferred);
}

const Shape* Shapes::input_shape(const Node& node, std::size_t input) const {
  return input < node.inputs.size() ? shape(node.inputs[input]) : nullptr;
}

void Shapes::infer(const Node& node) {
  if (node.outputs.empty()) return;
  if (!node.domain.empty() && node.op_type != "QGemm") {
    for (const std::string& output : node.outputs) set(output, std::nullopt);
    return;
  }
  if (std::optional<std::vector<Entry>> numbers = result_numbers(*this, model_, node);
      numbers && numbers->size() <= kHighestRank) {
    entries_[node.outputs[0]] = std::move(*numbers);
  }
  std::optional<Shape> result;
  try {
    result = result_shape(*this, model_, node);
  } catch (const Error& error) {  // axes that are computed: the shape is not known, no more
    if (error.code() != ErrorCode::unfilterable) throw;
  }
  set(node.outputs[0], std::move(result));
  for (std::size_t i = 1; i < node.outputs.size(); ++i) set(node.outputs[i], std::nullopt);
}

bool pads_nothing(const Model& model, const Node& node) {
  std::optional<std::vector<std::int64_t>> pads;
  if (const Attribute* given = node.attribute("pads")) {
    pads = given->ints;
  } else if (node.inputs.size() > 1) {
    pads = constant_ints(model, node.inputs[1]);
  }
  return pads && std::ranges::all_of(*pads, [](std::int64_t pad) { return pad == 0; });
}

}  // namespace oubli::onnx
