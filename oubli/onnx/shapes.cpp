#include "oubli/onnx/shapes.h"

#include <algorithm>

#include "oubli/base/error.h"
#include "oubli/onnx/constants.h"

namespace oubli::onnx {

namespace {

using Extent = Shapes::Extent;
using Shape = Shapes::Shape;
using Entry = Shapes::Entry;

constexpr std::size_t kHighestRank = 16;
constexpr std::int64_t kLargestExtent = std::int64_t{1} << 40;

bool is(const Node& node, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, node.op_type) != names.end();
}

bool keeps_shape(const Node& node) {
  return is(node, {"Relu",
                   "LeakyRelu",
                   "Sigmoid",
                   "Tanh",
                   "Clip",
                   "Elu",
                   "Selu",
                   "Celu",
                   "PRelu",
                   "HardSigmoid",
                   "HardSwish",
                   "Softplus",
                   "Softsign",
                   "Exp",
                   "Log",
                   "Sqrt",
                   "Abs",
                   "Neg",
                   "Erf",
                   "Gelu",
                   "Mish",
                   "Identity",
                   "Cast",
                   "Dropout",
                   "Floor",
                   "Ceil",
                   "Round",
                   "Reciprocal",
                   "Sign",
                   "BatchNormalization",
                   "LRN",
                   "InstanceNormalization",
                   "Softmax",
                   "LayerNormalization",
                   "Hardmax",
                   "GroupNormalization",
                   "LogSoftmax",
                   "LpNormalization",
                   "Sin",
                   "Cos",
                   "Not",
                   "MeanVarianceNormalization",
                   "CumSum",
                   "ThresholdedRelu",
                   "CastLike",
                   "QuantizeLinear",
                   "Swish",
                   "DequantizeLinear",
                   "RMSNormalization"});
}

// An axis as a place in `rank`; nothing if it lies outside.
std::optional<std::size_t> place_of(std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

Extent product(std::span<const Extent> extents) {
  Extent result{1, false};
  for (const Extent& extent : extents) {
    if (extent.value == 1 && !extent.batch) continue;
    if (result.value == 1 && !result.batch) {
      result = extent;
      continue;
    }
    result.batch = false;
    if (!result.value || !extent.value || *extent.value <= 0 || *result.value <= 0 ||
        *result.value > kLargestExtent / *extent.value) {
      result.value.reset();
    } else {
      *result.value *= *extent.value;
    }
  }
  return result;
}

// What a window of `kernel` leaves of `extent`.
std::optional<std::int64_t> slid(std::int64_t extent, std::int64_t kernel, std::int64_t dilation,
                                 std::int64_t stride, std::int64_t pads, bool ceil) {
  for (const std::int64_t number : {extent, kernel, dilation, stride}) {
    if (number < 1 || number > kLargestExtent) return std::nullopt;
  }
  if (kernel > kLargestExtent / dilation || pads < 0 || pads > kLargestExtent) return std::nullopt;
  const std::int64_t room = extent + pads - ((kernel - 1) * dilation + 1);
  if (room < 0) return std::nullopt;
  return (room + (ceil ? stride - 1 : 0)) / stride + 1;
}

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
  if (!node.domain.empty()) {
    for (const std::string& output : node.outputs) set(output, std::nullopt);
    return;
  }
  if (std::optional<std::vector<Entry>> numbers = numbers_of(node);
      numbers && numbers->size() <= kHighestRank) {
    entries_[node.outputs[0]] = std::move(*numbers);
  }
  std::optional<Shape> result;
  try {
    result = result_of(node);
  } catch (const Error& error) {  // axes that are computed: the shape is not known, no more
    if (error.code() != ErrorCode::unfilterable) throw;
  }
  set(node.outputs[0], std::move(result));
  for (std::size_t i = 1; i < node.outputs.size(); ++i) set(node.outputs[i], std::nullopt);
}

std::optional<std::vector<Entry>> Shapes::numbers_of(const Node& node) const {
  if (node.op_type == "Shape") {
    const Shape* from = input_shape(node, 0);
    if (from == nullptr) return std::nullopt;
    const auto rank = static_cast<std::int64_t>(from->size());
    const auto bound = [&](std::int64_t place) {
      return std::clamp<std::int64_t>(place < 0 ? place + rank : place, 0, rank);
    };
    std::vector<Entry> result;
    for (std::int64_t axis = bound(node.int_or("start", 0)); axis < bound(node.int_or("end", rank));
         ++axis) {
      const auto place = static_cast<std::size_t>(axis);
      result.push_back({(*from)[place], node.inputs[0], place});
    }
    return result;
  }
  if (node.op_type == "Concat") {
    std::vector<Entry> result;
    for (std::size_t input = 0; input < node.inputs.size(); ++input) {
      const auto part = entries(node, input);
      if (!part || result.size() + part->size() > kHighestRank) return std::nullopt;
      result.insert(result.end(), part->begin(), part->end());
    }
    return result;
  }
  if (node.inputs.empty()) return std::nullopt;
  const std::vector<Entry>* from = entries(node.inputs[0]);
  if (from == nullptr) return std::nullopt;
  if (is(node, {"Identity", "Cast"})) return *from;
  if (is(node, {"Unsqueeze", "Squeeze", "Reshape"})) {
    if (from->size() != 1) return std::nullopt;
    return *from;
  }
  if (node.op_type == "Gather" && node.inputs.size() == 2) {
    const auto indices = constant_ints(model_, node.inputs[1]);
    if (!indices) return std::nullopt;
    std::vector<Entry> result;
    for (const std::int64_t index : *indices) {
      const auto place = place_of(index, from->size());
      if (!place) return std::nullopt;
      result.push_back((*from)[*place]);
    }
    return result;
  }
  if (node.op_type == "Slice") {
    std::optional<std::vector<std::int64_t>> begin;
    std::optional<std::vector<std::int64_t>> end;
    if (const Attribute* starts = node.attribute("starts")) {
      begin = starts->ints;
      if (const Attribute* ends = node.attribute("ends")) end = ends->ints;
    } else if (node.inputs.size() >= 3) {
      begin = constant_ints(model_, node.inputs[1]);
      end = constant_ints(model_, node.inputs[2]);
    }
    if (node.inputs.size() > 4 && !node.inputs[4].empty() &&
        constant_ints(model_, node.inputs[4]) != std::vector<std::int64_t>{1}) {
      return std::nullopt;
    }
    if (!begin || !end || begin->size() != 1 || end->size() != 1) return std::nullopt;
    const auto size = static_cast<std::int64_t>(from->size());
    const auto bound = [&](std::int64_t place) {
      return std::clamp<std::int64_t>(place < 0 ? std::max(place, -size) + size : place, 0, size);
    };
    const std::int64_t first = bound(begin->front());
    const std::int64_t last = std::max(bound(end->front()), first);
    return std::vector<Entry>(from->begin() + first, from->begin() + last);
  }
  return std::nullopt;
}

std::optional<Shape> Shapes::result_of(const Node& node) const {
  if (node.op_type == "Constant") {
    Shape shape;
    if (const Attribute* value = node.attribute("value")) {
      for (const std::int64_t dim : model_.tensor_info(value->tensor, "").dims)
        shape.push_back({dim, false});
    } else if (const Attribute* ints = node.attribute("value_ints")) {
      shape.push_back({static_cast<std::int64_t>(ints->ints.size()), false});
    } else if (const Attribute* floats = node.attribute("value_floats")) {
      shape.push_back({static_cast<std::int64_t>(floats->floats.size()), false});
    } else if (node.attribute("value_int") == nullptr && node.attribute("value_float") == nullptr) {
      return std::nullopt;
    }
    return shape;
  }
  if (is(node, {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean", "Where", "Greater",
                "Less", "Equal", "And", "Or", "GreaterOrEqual", "LessOrEqual"})) {
    return broadcast(node);
  }
  const Shape* from = input_shape(node, 0);
  if (from == nullptr) return std::nullopt;
  const std::size_t rank = from->size();
  if (keeps_shape(node) || (node.op_type == "Pad" && pads_nothing(model_, node))) return *from;
  if (node.op_type == "MatMul") return matmul(node);
  if (node.op_type == "Gemm") {
    const Shape* weights = input_shape(node, 1);
    if (rank != 2 || weights == nullptr || weights->size() != 2) return std::nullopt;
    return Shape{(*from)[node.int_or("transA", 0) != 0 ? 1 : 0],
                 (*weights)[node.int_or("transB", 0) != 0 ? 0 : 1]};
  }
  if (is(node, {"Conv", "MaxPool", "AveragePool", "LpPool"})) return window(node);
  if (is(node, {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"})) {
    if (rank < 2) return std::nullopt;
    Shape shape(rank, Extent{1, false});
    std::copy_n(from->begin(), 2, shape.begin());
    return shape;
  }
  if (is(node, {"Pad", "Resize", "Upsample", "ConvTranspose"})) {
    Shape shape(rank);
    if (rank > 0) shape[0].batch = (*from)[0].batch;
    return shape;
  }
  if (node.op_type == "Flatten") {
    const std::int64_t axis = node.int_or("axis", 1);
    const auto place = axis == static_cast<std::int64_t>(rank) ? rank : place_of(axis, rank);
    if (!place) return std::nullopt;
    return Shape{product(std::span(*from).first(*place)),
                 product(std::span(*from).subspan(*place))};
  }
  if (node.op_type == "Reshape") return reshape(node);
  if (node.op_type == "Transpose") {
    const Attribute* perm = node.attribute("perm");
    if (perm == nullptr) return Shape(from->rbegin(), from->rend());
    if (perm->ints.size() != rank) return std::nullopt;
    Shape shape;
    for (const std::int64_t axis : perm->ints) {
      const auto place = place_of(axis, rank);
      if (!place) return std::nullopt;
      shape.push_back((*from)[*place]);
    }
    return shape;
  }
  if (is(node, {"Squeeze", "Unsqueeze"})) return squeeze(node, *from);
  if (node.op_type.starts_with("Reduce")) return reduce(node, *from);
  if (is(node, {"Concat", "Split", "Slice"})) {
    // Parts along an axis: the rank stays, and so do all other extents.
    if (node.op_type == "Slice") {
      std::optional<std::vector<std::int64_t>> axes;
      if (const Attribute* given = node.attribute("axes")) {
        axes = given->ints;
      } else if (node.inputs.size() > 3) {
        axes = constant_ints(model_, node.inputs[3]);
      }
      if (!axes) return Shape(rank);
      Shape shape = *from;
      for (const std::int64_t axis : *axes) {
        const auto place = place_of(axis, rank);
        if (!place) return std::nullopt;
        shape[*place] = {};
      }
      return shape;
    }
    const auto place = place_of(node.int_or("axis", 0), rank);
    if (!place) return std::nullopt;
    Shape shape = *from;
    shape[*place] = {};
    return shape;
  }
  if (node.op_type == "Gather") {
    const Shape* indices = input_shape(node, 1);
    const auto place = place_of(node.int_or("axis", 0), rank);
    if (indices == nullptr || !place) return std::nullopt;
    Shape shape(from->begin(), from->begin() + static_cast<std::ptrdiff_t>(*place));
    shape.insert(shape.end(), indices->begin(), indices->end());
    shape.insert(shape.end(), from->begin() + static_cast<std::ptrdiff_t>(*place) + 1, from->end());
    return shape;
  }
  return std::nullopt;
}

std::optional<Shape> Shapes::broadcast(const Node& node) const {
  Shape result;
  for (std::size_t input = 0; input < node.inputs.size(); ++input) {
    const Shape* shape = input_shape(node, input);
    if (shape == nullptr) return std::nullopt;
    // Before opset 7 the second input is fitted into the first, at an axis that it names.
    if (input > 0 && model_.opset() < 7) return result;
    Shape other = *shape;
    if (other.size() > result.size()) std::swap(other, result);
    const std::size_t lead = result.size() - other.size();
    for (std::size_t i = 0; i < other.size(); ++i) {
      Extent& extent = result[lead + i];
      const Extent& second = other[i];
      if (second.value == 1 && !second.batch) continue;
      if ((extent.value == 1 && !extent.batch) || (second.value && *second.value > 1)) {
        const bool batch = extent.batch || second.batch;
        extent = second;
        extent.batch = batch;
      } else if (!extent.value) {
        extent.batch = extent.batch || second.batch;
      }
    }
  }
  return result;
}

std::optional<Shape> Shapes::matmul(const Node& node) const {
  const Shape* left = input_shape(node, 0);
  const Shape* right = input_shape(node, 1);
  if (left == nullptr || right == nullptr || left->size() < 2 || right->size() < 2) {
    return std::nullopt;
  }
  // The larger stack gives the leading axes; two stacks of one rank are those of attention.
  const Shape& stack = left->size() >= right->size() ? *left : *right;
  Shape shape(stack.begin(), stack.end() - 2);
  shape.push_back((*left)[left->size() - 2]);
  shape.push_back(right->back());
  return shape;
}

// Convolution and pooling.
std::optional<Shape> Shapes::window(const Node& node) const {
  const Shape& from = *input_shape(node, 0);
  const std::size_t rank = from.size();
  if (rank < 3) return std::nullopt;
  Shape shape(rank);
  shape[0] = from[0];
  std::vector<std::int64_t> kernel;
  if (node.op_type == "Conv") {
    const Shape* weights = input_shape(node, 1);
    if (weights == nullptr || weights->size() != rank) return shape;
    shape[1] = (*weights)[0];
    for (std::size_t i = 2; i < rank; ++i) kernel.push_back((*weights)[i].value.value_or(0));
  } else {
    shape[1] = from[1];
    if (const Attribute* given = node.attribute("kernel_shape")) kernel = given->ints;
  }
  const std::size_t axes = rank - 2;
  const auto list = [&](std::string_view name, std::size_t size, std::int64_t otherwise) {
    const Attribute* given = node.attribute(name);
    return given != nullptr && given->ints.size() == size
               ? given->ints
               : std::vector<std::int64_t>(size, otherwise);
  };
  const std::vector<std::int64_t> strides = list("strides", axes, 1);
  const std::vector<std::int64_t> dilations = list("dilations", axes, 1);
  const std::vector<std::int64_t> pads = list("pads", 2 * axes, 0);
  const Attribute* auto_pad = node.attribute("auto_pad");
  const bool same = auto_pad != nullptr && auto_pad->s.starts_with("SAME");
  if (kernel.size() != axes) return shape;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::optional<std::int64_t>& extent = from[i + 2].value;
    if (!extent) continue;
    if (same) {
      if (strides[i] > 0 && *extent < kLargestExtent && strides[i] < kLargestExtent)
        shape[i + 2].value = (*extent + strides[i] - 1) / strides[i];
      continue;
    }
    if (pads[i] < 0 || pads[i] > kLargestExtent || pads[i + axes] < 0 ||
        pads[i + axes] > kLargestExtent) {
      continue;
    }
    shape[i + 2].value = slid(*extent, kernel[i], dilations[i], strides[i],
                              pads[i] + pads[i + axes], node.int_or("ceil_mode", 0) != 0);
  }
  return shape;
}

std::optional<Shape> Shapes::reshape(const Node& node) const {
  const Shape& from = *input_shape(node, 0);
  std::vector<Entry> wanted;
  if (const Attribute* attribute = node.attribute("shape")) {
    for (const std::int64_t number : attribute->ints) wanted.push_back({{number, false}, "", 0});
  } else {
    auto numbers = entries(node, 1);
    if (!numbers) {  // how many numbers the shape has is the rank
      const Shape* count = input_shape(node, 1);
      if (count == nullptr || count->size() != 1 || !count->front().value) return std::nullopt;
      const std::int64_t rank = *count->front().value;
      if (rank < 0 || rank > static_cast<std::int64_t>(kHighestRank)) return std::nullopt;
      return Shape(static_cast<std::size_t>(rank));
    }
    wanted = std::move(*numbers);
  }
  if (wanted.size() > kHighestRank) return std::nullopt;
  Shape shape;
  std::optional<std::size_t> rest;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Extent extent = wanted[i].extent;
    if (extent.value == 0) extent = i < from.size() ? from[i] : Extent{};
    if (i < from.size() && from[i].batch && from[i].value && from[i].value == extent.value)
      extent = from[i];
    if (extent.value == -1) {
      rest = i;
      extent = {};
    }
    shape.push_back(extent);
  }
  if (!rest) return shape;
  // What -1 stands for: what is left when equal extents are taken away on both sides.
  Shape left = from;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i == *rest) continue;
    const auto same = std::ranges::find_if(left, [&](const Extent& extent) {
      return shape[i].batch ? extent.batch
                            : !extent.batch && extent.value && extent.value == shape[i].value;
    });
    if (same != left.end()) {
      left.erase(same);
      continue;
    }
    if (shape[i].value == 1) continue;
    // Not one axis of it, but perhaps a divisor of all that is left.
    const Extent all = product(left);
    if (!all.value || !shape[i].value || *shape[i].value <= 0 ||
        *all.value % *shape[i].value != 0) {
      return shape;
    }
    left = {{*all.value / *shape[i].value, false}};
  }
  shape[*rest] = product(left);
  return shape;
}

std::optional<Shape> Shapes::squeeze(const Node& node, const Shape& from) const {
  const auto axes = axes_of(model_, node);
  if (node.op_type == "Squeeze") {
    Shape shape;
    if (!axes) {
      for (const Extent& extent : from) {
        if (!extent.value) return std::nullopt;
        if (extent.value != 1) shape.push_back(extent);
      }
      return shape;
    }
    std::vector<bool> removed(from.size());
    for (const std::int64_t axis : *axes) {
      const auto place = place_of(axis, from.size());
      if (!place) return std::nullopt;
      removed[*place] = true;
    }
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (!removed[i]) shape.push_back(from[i]);
    }
    return shape;
  }
  if (!axes || axes->size() > kHighestRank) return std::nullopt;
  const std::size_t rank = from.size() + axes->size();
  std::vector<bool> added(rank);
  for (const std::int64_t axis : *axes) {
    const auto place = place_of(axis, rank);
    if (!place || added[*place]) return std::nullopt;
    added[*place] = true;
  }
  Shape shape;
  auto next = from.begin();
  for (std::size_t i = 0; i < rank; ++i) shape.push_back(added[i] ? Extent{1, false} : *next++);
  return shape;
}

std::optional<Shape> Shapes::reduce(const Node& node, const Shape& from) const {
  const auto axes = axes_of(model_, node);
  std::vector<bool> reduced(from.size(), !axes.has_value() || axes->empty());
  if (axes) {
    if (axes->empty() && node.int_or("noop_with_empty_axes", 0) != 0) return from;
    for (const std::int64_t axis : *axes) {
      const auto place = place_of(axis, from.size());
      if (!place) return std::nullopt;
      reduced[*place] = true;
    }
  }
  Shape shape;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!reduced[i]) {
      shape.push_back(from[i]);
    } else if (node.int_or("keepdims", 1) != 0) {
      shape.push_back({1, false});
    }
  }
  return shape;
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
