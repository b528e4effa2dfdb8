#include "oubli/onnx/shape_rules.h"

#include <algorithm>
#include <map>
#include <span>

#include "oubli/onnx/constants.h"

namespace oubli::onnx {
namespace {

using Extent = Shapes::Extent;
using Shape = Shapes::Shape;
using Entry = Shapes::Entry;

constexpr std::int64_t kLargestExtent = std::int64_t{1} << 40;

// What a rule works from.
struct Operation {
  const Shapes& known;
  const Model& model;
  const Node& node;
  const Shape& from;  // the shape of its first input
};
using Rule = std::optional<Shape> (*)(const Operation&);

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

std::optional<Shape> same(const Operation& op) { return op.from; }

// The shape of two values that are broadcast to each other.
Shape together(Shape result, Shape other) {
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
  return result;
}

std::optional<Shape> broadcast(const Operation& op) {
  Shape result;
  for (std::size_t input = 0; input < op.node.inputs.size(); ++input) {
    const Shape* shape = op.known.input_shape(op.node, input);
    if (shape == nullptr) return std::nullopt;
    // Before opset 7 the second input is fitted into the first, at an axis that it names.
    if (input > 0 && op.model.opset() < 7) return result;
    result = together(std::move(result), *shape);
  }
  return result;
}

std::optional<Shape> expand(const Operation& op) {
  const auto wanted = op.known.entries(op.node, 1);
  if (!wanted || wanted->size() > Shapes::kHighestRank) return std::nullopt;
  Shape shape;
  for (const Entry& entry : *wanted) shape.push_back(entry.extent);
  return together(op.from, std::move(shape));
}

// Input 0 times input `other`.
std::optional<Shape> product_with(const Operation& op, std::size_t other) {
  const Shape& left = op.from;
  const Shape* right = op.known.input_shape(op.node, other);
  if (right == nullptr || left.size() < 2 || right->size() < 2) return std::nullopt;
  // The larger stack gives the leading axes; two stacks of one rank are those of attention.
  const Shape& stack = left.size() >= right->size() ? left : *right;
  Shape shape(stack.begin(), stack.end() - 2);
  shape.push_back(left[left.size() - 2]);
  shape.push_back(right->back());
  return shape;
}
std::optional<Shape> matmul(const Operation& op) { return product_with(op, 1); }
std::optional<Shape> quantised_matmul(const Operation& op) { return product_with(op, 3); }

std::optional<Shape> gemm_with(const Operation& op, std::size_t other) {
  const Shape* weights = op.known.input_shape(op.node, other);
  if (op.from.size() != 2 || weights == nullptr || weights->size() != 2) return std::nullopt;
  return Shape{op.from[op.node.int_or("transA", 0) != 0 ? 1 : 0],
               (*weights)[op.node.int_or("transB", 0) != 0 ? 0 : 1]};
}
std::optional<Shape> gemm(const Operation& op) { return gemm_with(op, 1); }
std::optional<Shape> quantised_gemm(const Operation& op) { return gemm_with(op, 3); }

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

// The extents of a window and how it moves, one number per axis of the picture.
struct Window {
  std::vector<std::int64_t> kernel, strides, dilations, pads;
  bool same_padding = false;
  bool ceil = false;
};

Window window_of(const Operation& op, std::vector<std::int64_t> kernel, std::size_t axes) {
  const auto list = [&](std::string_view name, std::size_t size, std::int64_t otherwise) {
    const Attribute* given = op.node.attribute(name);
    return given != nullptr && given->ints.size() == size
               ? given->ints
               : std::vector<std::int64_t>(size, otherwise);
  };
  const Attribute* auto_pad = op.node.attribute("auto_pad");
  return {.kernel = std::move(kernel),
          .strides = list("strides", axes, 1),
          .dilations = list("dilations", axes, 1),
          .pads = list("pads", 2 * axes, 0),
          .same_padding = auto_pad != nullptr && auto_pad->s.starts_with("SAME"),
          .ceil = op.node.int_or("ceil_mode", 0) != 0};
}

std::optional<std::int64_t> left_by(const Window& window, std::size_t i, std::int64_t extent) {
  const std::int64_t stride = window.strides[i];
  if (window.same_padding) {
    if (stride < 1 || stride >= kLargestExtent || extent >= kLargestExtent) return std::nullopt;
    return (extent + stride - 1) / stride;
  }
  const std::int64_t before = window.pads[i];
  const std::int64_t behind = window.pads[i + window.strides.size()];
  if (before < 0 || before > kLargestExtent || behind < 0 || behind > kLargestExtent)
    return std::nullopt;
  return slid(extent, window.kernel[i], window.dilations[i], stride, before + behind, window.ceil);
}

std::optional<Shape> slide(const Operation& op) {
  const std::size_t rank = op.from.size();
  if (rank < 3) return std::nullopt;
  Shape shape(rank);
  shape[0] = op.from[0];
  std::vector<std::int64_t> kernel;
  if (op.node.op_type == "Conv") {
    const Shape* weights = op.known.input_shape(op.node, 1);
    if (weights == nullptr || weights->size() != rank) return shape;
    shape[1] = (*weights)[0];
    for (std::size_t i = 2; i < rank; ++i) kernel.push_back((*weights)[i].value.value_or(0));
  } else {
    shape[1] = op.from[1];
    if (const Attribute* given = op.node.attribute("kernel_shape")) kernel = given->ints;
  }
  if (kernel.size() != rank - 2) return shape;
  const Window window = window_of(op, std::move(kernel), rank - 2);
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    if (const auto& extent = op.from[i + 2].value) shape[i + 2].value = left_by(window, i, *extent);
  }
  return shape;
}

std::optional<Shape> pool_all(const Operation& op) {
  if (op.from.size() < 2) return std::nullopt;
  Shape shape(op.from.size(), Extent{1, false});
  std::copy_n(op.from.begin(), 2, shape.begin());
  return shape;
}

// Pictures become larger or smaller by numbers that are not followed.
std::optional<Shape> resize(const Operation& op) {
  if (op.node.op_type == "Pad" && pads_nothing(op.model, op.node)) return op.from;
  Shape shape(op.from.size());
  if (!shape.empty()) shape[0].batch = op.from[0].batch;
  return shape;
}

std::optional<Shape> flatten(const Operation& op) {
  const std::size_t rank = op.from.size();
  const std::int64_t axis = op.node.int_or("axis", 1);
  const auto place = axis == static_cast<std::int64_t>(rank) ? rank : place_of(axis, rank);
  if (!place) return std::nullopt;
  return Shape{product(std::span(op.from).first(*place)),
               product(std::span(op.from).subspan(*place))};
}

// What -1 stands for at `rest` of `shape`: what is left of `from` when equal extents are taken away
// on both sides; not known where that leaves something over.
Extent extent_at_rest(const Shape& shape, std::size_t rest, Shape from) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i == rest) continue;
    const auto equal = std::ranges::find_if(from, [&](const Extent& extent) {
      return shape[i].batch ? extent.batch
                            : !extent.batch && extent.value && extent.value == shape[i].value;
    });
    if (equal != from.end()) {
      from.erase(equal);
      continue;
    }
    if (shape[i].value == 1) continue;
    // Not one axis of it, but perhaps a divisor of all that is left.
    const Extent all = product(from);
    if (!all.value || !shape[i].value || *shape[i].value <= 0 ||
        *all.value % *shape[i].value != 0) {
      return {};
    }
    from = {{*all.value / *shape[i].value, false}};
  }
  return product(from);
}

std::optional<Shape> reshape(const Operation& op) {
  std::vector<Entry> wanted;
  if (const Attribute* attribute = op.node.attribute("shape")) {
    for (const std::int64_t number : attribute->ints) wanted.push_back({{number, false}, "", 0});
  } else if (auto numbers = op.known.entries(op.node, 1)) {
    wanted = std::move(*numbers);
  } else {  // how many numbers the shape has is the rank
    const Shape* count = op.known.input_shape(op.node, 1);
    if (count == nullptr || count->size() != 1 || !count->front().value) return std::nullopt;
    const std::int64_t rank = *count->front().value;
    if (rank < 0 || rank > static_cast<std::int64_t>(Shapes::kHighestRank)) return std::nullopt;
    return Shape(static_cast<std::size_t>(rank));
  }
  if (wanted.size() > Shapes::kHighestRank) return std::nullopt;
  Shape shape;
  std::optional<std::size_t> rest;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Extent before = i < op.from.size() ? op.from[i] : Extent{};
    Extent extent = wanted[i].extent;
    if (extent.value == 0 || (before.batch && before.value && before.value == extent.value))
      extent = before;
    if (extent.value == -1) {
      rest = i;
      extent = {};
    }
    shape.push_back(extent);
  }
  if (rest) shape[*rest] = extent_at_rest(shape, *rest, op.from);
  return shape;
}

std::optional<Shape> transpose(const Operation& op) {
  const Attribute* perm = op.node.attribute("perm");
  if (perm == nullptr) return Shape(op.from.rbegin(), op.from.rend());
  if (perm->ints.size() != op.from.size()) return std::nullopt;
  Shape shape;
  for (const std::int64_t axis : perm->ints) {
    const auto place = place_of(axis, op.from.size());
    if (!place) return std::nullopt;
    shape.push_back(op.from[*place]);
  }
  return shape;
}

// Which of `rank` axes are named; nothing if one lies outside.
std::optional<std::vector<bool>> named(std::span<const std::int64_t> axes, std::size_t rank) {
  std::vector<bool> result(rank);
  for (const std::int64_t axis : axes) {
    const auto place = place_of(axis, rank);
    if (!place) return std::nullopt;
    result[*place] = true;
  }
  return result;
}

std::optional<Shape> squeeze(const Operation& op) {
  const auto axes = axes_of(op.model, op.node);
  Shape shape;
  if (!axes) {
    for (const Extent& extent : op.from) {
      if (!extent.value) return std::nullopt;
      if (extent.value != 1) shape.push_back(extent);
    }
    return shape;
  }
  const auto removed = named(*axes, op.from.size());
  if (!removed) return std::nullopt;
  for (std::size_t i = 0; i < op.from.size(); ++i) {
    if (!(*removed)[i]) shape.push_back(op.from[i]);
  }
  return shape;
}

std::optional<Shape> unsqueeze(const Operation& op) {
  const auto axes = axes_of(op.model, op.node);
  if (!axes || axes->size() > Shapes::kHighestRank) return std::nullopt;
  const std::size_t rank = op.from.size() + axes->size();
  const auto added = named(*axes, rank);
  if (!added || static_cast<std::size_t>(std::ranges::count(*added, true)) != axes->size())
    return std::nullopt;
  Shape shape;
  auto next = op.from.begin();
  for (std::size_t i = 0; i < rank; ++i) shape.push_back((*added)[i] ? Extent{1, false} : *next++);
  return shape;
}

std::optional<Shape> reduce(const Operation& op) {
  const auto axes = axes_of(op.model, op.node);
  if (axes && axes->empty() && op.node.int_or("noop_with_empty_axes", 0) != 0) return op.from;
  auto reduced = named(axes.value_or(std::vector<std::int64_t>{}), op.from.size());
  if (!reduced) return std::nullopt;
  if (!axes || axes->empty()) reduced->assign(op.from.size(), true);
  Shape shape;
  for (std::size_t i = 0; i < op.from.size(); ++i) {
    if (!(*reduced)[i]) {
      shape.push_back(op.from[i]);
    } else if (op.node.int_or("keepdims", 1) != 0) {
      shape.push_back({1, false});
    }
  }
  return shape;
}

// Parts along an axis: the rank stays, and so do all other extents.
std::optional<Shape> parts_along(const Operation& op, std::span<const std::int64_t> axes) {
  const auto cut = named(axes, op.from.size());
  if (!cut) return std::nullopt;
  Shape shape = op.from;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if ((*cut)[i]) shape[i] = {};
  }
  return shape;
}

std::optional<Shape> along_axis(const Operation& op) {
  const std::int64_t axis = op.node.int_or("axis", 0);
  return parts_along(op, std::span(&axis, 1));
}

std::optional<Shape> slice(const Operation& op) {
  std::optional<std::vector<std::int64_t>> axes;
  if (const Attribute* given = op.node.attribute("axes")) {
    axes = given->ints;
  } else if (op.node.inputs.size() > 3) {
    axes = constant_ints(op.model, op.node.inputs[3]);
  }
  if (!axes) return Shape(op.from.size());
  return parts_along(op, *axes);
}

std::optional<Shape> gather(const Operation& op) {
  const Shape* indices = op.known.input_shape(op.node, 1);
  const auto place = place_of(op.node.int_or("axis", 0), op.from.size());
  if (indices == nullptr || !place) return std::nullopt;
  const auto axis = op.from.begin() + static_cast<std::ptrdiff_t>(*place);
  Shape shape(op.from.begin(), axis);
  shape.insert(shape.end(), indices->begin(), indices->end());
  shape.insert(shape.end(), axis + 1, op.from.end());
  return shape;
}

std::optional<Shape> shape_of_constant(const Model& model, const Node& node) {
  Shape shape;
  if (const Attribute* value = node.attribute("value")) {
    for (const std::int64_t dim : model.tensor_info(value->tensor, "").dims)
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

struct RuleFor {
  Rule rule;
  std::string_view operations;  // their names, a space behind each
};

constexpr RuleFor kRules[] = {
    {same,
     "Relu LeakyRelu Sigmoid Tanh Clip Elu Selu Celu PRelu HardSigmoid HardSwish Softplus "
     "Softsign Exp Log Sqrt Abs Neg Erf Gelu Mish Identity Cast Dropout Floor Ceil Round "
     "Reciprocal Sign LRN Softmax Hardmax LogSoftmax LpNormalization Sin Cos Not CumSum "
     "ThresholdedRelu CastLike Swish QuantizeLinear DequantizeLinear DynamicQuantizeLinear "
     "BatchNormalization InstanceNormalization LayerNormalization GroupNormalization "
     "RMSNormalization MeanVarianceNormalization "},
    {broadcast,
     "Add Sub Mul Div Pow Max Min Sum Mean Where Greater Less Equal And Or GreaterOrEqual "
     "LessOrEqual "},
    {matmul, "MatMul MatMulInteger "},
    {quantised_matmul, "QLinearMatMul "},
    {gemm, "Gemm "},
    {quantised_gemm, "QGemm "},
    {slide, "Conv MaxPool AveragePool LpPool "},
    {pool_all, "GlobalAveragePool GlobalMaxPool GlobalLpPool "},
    {resize, "Pad Resize Upsample ConvTranspose "},
    {flatten, "Flatten "},
    {reshape, "Reshape "},
    {expand, "Expand "},
    {transpose, "Transpose "},
    {squeeze, "Squeeze "},
    {unsqueeze, "Unsqueeze "},
    {reduce,
     "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
     "ReduceSum ReduceSumSquare "},
    {along_axis, "Concat Split "},
    {slice, "Slice "},
    {gather, "Gather "},
};

Rule rule_of(std::string_view operation) {
  static const std::map<std::string_view, Rule> by_name = [] {
    std::map<std::string_view, Rule> result;
    for (const RuleFor& entry : kRules) {
      for (std::string_view left = entry.operations; !left.empty();) {
        const std::size_t end = left.find(' ');
        result.emplace(left.substr(0, end), entry.rule);
        left.remove_prefix(end + 1);
      }
    }
    return result;
  }();
  const auto found = by_name.find(operation);
  return found == by_name.end() ? nullptr : found->second;
}

}  // namespace

std::optional<std::size_t> place_of(std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

std::optional<Shape> result_shape(const Shapes& known, const Model& model, const Node& node) {
  if (node.op_type == "Constant") return shape_of_constant(model, node);
  const Rule rule = rule_of(node.op_type);
  const Shape* from = known.input_shape(node, 0);
  if (rule == nullptr || from == nullptr) return std::nullopt;
  return rule({known, model, node, *from});
}

}  // namespace oubli::onnx
