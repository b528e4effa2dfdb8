#include "oubli/onnx/constants.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "oubli/onnx/schema.h"

namespace oubli::onnx {

namespace {

constexpr std::size_t kLongestChain = 16;
// A shape may itself stand behind a Reshape, whose shape ...: honest files do that once. Without a
// limit a graph that refers to itself would be followed for ever.
constexpr int kDeepestShape = 2;

std::optional<Constant> follow(const Model& model, std::string_view value, int depth);
std::optional<TensorView> follow_shape(const Model& model, std::string_view value, int depth);
std::optional<std::vector<std::int64_t>> follow_ints(const Model& model, std::string_view value,
                                                     int depth);
std::optional<std::vector<std::int64_t>> follow_axes(const Model& model, const Node& node,
                                                     int depth);

std::optional<SharedTensor> load_if_numeric(const Model& model, const TensorInfo& info) {
  if (!dtype_of(info.data_type)) return std::nullopt;
  return model.load(info);
}

std::optional<SharedTensor> load_constant_node(const Model& model, const Node& node) {
  const std::string what = fmt::format("{}: {}", model.what(), node.describe());
  if (const Attribute* value = node.attribute("value"); value != nullptr && value->tensor.data()) {
    return load_if_numeric(model, model.tensor_info(value->tensor, node.outputs.front()));
  }
  const auto from = [&]<typename T>(std::vector<T> values, DType dtype, bool scalar) {
    Tensor tensor{dtype, {}, std::vector<std::byte>(values.size() * sizeof(T))};
    if (!scalar) tensor.shape = {values.size()};
    if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    return share(std::move(tensor), what);
  };
  if (const Attribute* a = node.attribute("value_float")) {
    return from(std::vector<float>{a->f}, DType::f32, true);
  }
  if (const Attribute* a = node.attribute("value_floats"))
    return from(a->floats, DType::f32, false);
  if (const Attribute* a = node.attribute("value_int")) {
    return from(std::vector<std::int64_t>{a->i}, DType::i64, true);
  }
  if (const Attribute* a = node.attribute("value_ints")) return from(a->ints, DType::i64, false);
  return std::nullopt;
}

std::optional<SharedTensor> reshaped(SharedTensor tensor, const std::vector<std::int64_t>& shape,
                                     bool allow_zero) {
  std::vector<std::size_t> result;
  std::optional<std::size_t> inferred;
  std::size_t known = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::size_t extent = 1;
    if (shape[i] == -1) {
      if (inferred) return std::nullopt;
      inferred = i;
    } else if (shape[i] == 0 && !allow_zero) {
      if (i >= tensor.rank()) return std::nullopt;
      extent = tensor.shape[i];
    } else if (shape[i] < 0) {
      return std::nullopt;
    } else {
      extent = static_cast<std::size_t>(shape[i]);
    }
    if (__builtin_mul_overflow(known, extent, &known)) return std::nullopt;
    result.push_back(extent);
  }
  const std::size_t count = element_count(tensor.shape, tensor.what);
  if (inferred) {
    if (known == 0 || count % known != 0) return std::nullopt;
    result[*inferred] = count / known;
  } else if (known != count) {
    return std::nullopt;
  }
  tensor.shape = std::move(result);
  return tensor;
}

std::optional<SharedTensor> transposed(const SharedTensor& tensor, std::vector<std::int64_t> perm) {
  const TensorView& view = tensor;
  const std::size_t rank = view.rank();
  if (perm.empty()) {
    perm.resize(rank);
    std::iota(perm.rbegin(), perm.rend(), 0);
  }
  std::vector<bool> seen(rank);
  for (const std::int64_t axis : perm) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank) || seen[static_cast<std::size_t>(axis)])
      return std::nullopt;
    seen[static_cast<std::size_t>(axis)] = true;
  }
  if (perm.size() != rank) return std::nullopt;
  const std::size_t size = size_of(view.dtype);
  std::vector<std::size_t> stride(rank, 1);
  for (std::size_t i = rank; i-- > 1;) stride[i - 1] = stride[i] * view.shape[i];
  // Without bytes it is the shape that counts.
  Tensor result{view.dtype, {}, std::vector<std::byte>(view.bytes.size())};
  std::vector<std::size_t> step;
  for (const std::int64_t axis : perm) {
    result.shape.push_back(view.shape[static_cast<std::size_t>(axis)]);
    step.push_back(stride[static_cast<std::size_t>(axis)]);
  }
  std::vector<std::size_t> index(rank);
  for (std::size_t i = 0; i < view.count(); ++i) {
    std::size_t from = 0;
    for (std::size_t axis = 0; axis < rank; ++axis) from += index[axis] * step[axis];
    std::memcpy(result.bytes.data() + i * size, view.bytes.data() + from * size, size);
    for (std::size_t axis = rank; axis-- > 0;) {
      if (++index[axis] < result.shape[axis]) break;
      index[axis] = 0;
    }
  }
  return share(std::move(result), view.what);
}

std::optional<SharedTensor> cast(const SharedTensor& tensor, std::int64_t to) {
  const std::optional<DType> dtype = dtype_of(static_cast<std::uint64_t>(to));
  if (!dtype || !is_float(*dtype)) return std::nullopt;
  if (*dtype == tensor.dtype) return tensor;
  if (tensor.bytes.empty()) {  // the shape alone
    SharedTensor shape = tensor;
    shape.dtype = *dtype;
    return shape;
  }
  std::vector<double> values(tensor.count());
  decode(tensor.dtype, tensor.bytes, values);
  Tensor result = to_tensor(values, *dtype);
  result.shape = tensor.shape;
  return share(std::move(result), tensor.what);
}

std::optional<SharedTensor> squeezed(const Model& model, const Node& node, SharedTensor tensor,
                                     int depth) {
  const auto axes = follow_axes(model, node, depth);
  const auto rank = static_cast<std::int64_t>(tensor.rank());
  std::vector<std::size_t> shape;
  for (std::int64_t i = 0; i < rank; ++i) {
    const std::size_t extent = tensor.shape[static_cast<std::size_t>(i)];
    const bool named =
        axes && (std::ranges::count(*axes, i) + std::ranges::count(*axes, i - rank)) != 0;
    if (named ? extent != 1 : false) return std::nullopt;
    if (named || (!axes && extent == 1)) continue;
    shape.push_back(extent);
  }
  tensor.shape = std::move(shape);
  return tensor;
}

std::optional<SharedTensor> unsqueezed(const Model& model, const Node& node, SharedTensor tensor,
                                       int depth) {
  const auto axes = follow_axes(model, node, depth);
  if (!axes || axes->size() > 8) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(tensor.rank() + axes->size());
  std::vector<std::size_t> shape;
  std::size_t next = 0;
  for (std::int64_t i = 0; i < rank; ++i) {
    const bool added = (std::ranges::count(*axes, i) + std::ranges::count(*axes, i - rank)) != 0;
    if (!added && next >= tensor.rank()) return std::nullopt;
    shape.push_back(added ? 1 : tensor.shape[next++]);
  }
  if (next != tensor.rank()) return std::nullopt;
  tensor.shape = std::move(shape);
  return tensor;
}

// What whole numbers stand for: scale (q - zero), in float32, with one scale or one along an axis.
std::optional<SharedTensor> dequantised(const Model& model, const Node& node, SharedTensor tensor,
                                        int depth) {
  if (node.inputs.size() < 2 || is_float(tensor.dtype) || node.int_or("block_size", 0) != 0)
    return std::nullopt;
  const bool shape_alone = tensor.bytes.empty();
  const auto numbers = [&](std::size_t input) -> std::optional<std::vector<double>> {
    const auto shape = follow_shape(model, node.inputs[input], depth + 1);
    if (!shape || shape->rank() > 1 || (input == 1 && shape->dtype != DType::f32))
      return std::nullopt;
    if (shape_alone) return std::vector<double>(element_count(shape->shape, shape->what));
    const auto constant = follow(model, node.inputs[input], depth + 1);
    if (!constant) return std::nullopt;
    std::vector<double> values(constant->tensor.count());
    decode(constant->tensor.dtype, constant->tensor.bytes, values);
    return values;
  };
  const auto scales = numbers(1);
  const bool zero = node.inputs.size() > 2 && !node.inputs[2].empty();
  const auto zeros = zero ? numbers(2) : std::optional(std::vector<double>{0});
  if (!scales || !zeros || scales->empty() || zeros->empty()) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(tensor.rank());
  std::int64_t axis = node.int_or("axis", 1);
  if (axis < 0) axis += rank;
  std::size_t run = 1, extent = 1;  // numbers in a row with one scale; scales
  if (scales->size() > 1 || zeros->size() > 1) {
    if (axis < 0 || axis >= rank) return std::nullopt;
    extent = tensor.shape[static_cast<std::size_t>(axis)];
    for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < tensor.rank(); ++i)
      run *= tensor.shape[i];
  }
  const auto fits = [&](std::size_t n) { return n == 1 || n == extent; };
  if (!fits(scales->size()) || !fits(zeros->size())) return std::nullopt;
  if (shape_alone) {
    tensor.dtype = DType::f32;
    return tensor;
  }
  std::vector<double> values(tensor.count());
  decode(tensor.dtype, tensor.bytes, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t place = i / run % extent;
    values[i] = (values[i] - (*zeros)[zeros->size() == 1 ? 0 : place]) *
                (*scales)[scales->size() == 1 ? 0 : place];
  }
  Tensor result = to_tensor(values, DType::f32);
  result.shape = tensor.shape;
  return share(std::move(result), tensor.what);
}

std::optional<SharedTensor> apply(const Model& model, const Node& node, SharedTensor tensor,
                                  int depth) {
  if (node.op_type == "Identity") return tensor;
  if (node.op_type == "Cast") return cast(tensor, node.int_or("to", 0));
  if (node.op_type == "Transpose") {
    const Attribute* perm = node.attribute("perm");
    return transposed(tensor, perm == nullptr ? std::vector<std::int64_t>{} : perm->ints);
  }
  if (node.op_type == "Squeeze") return squeezed(model, node, std::move(tensor), depth);
  if (node.op_type == "Unsqueeze") return unsqueezed(model, node, std::move(tensor), depth);
  if (node.op_type == "DequantizeLinear") return dequantised(model, node, std::move(tensor), depth);
  if (node.op_type == "Flatten") {
    const auto rank = static_cast<std::int64_t>(tensor.rank());
    std::int64_t axis = node.int_or("axis", 1);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis > rank) return std::nullopt;
    std::int64_t rows = 1;
    for (std::int64_t i = 0; i < axis; ++i) {
      rows *= static_cast<std::int64_t>(tensor.shape[static_cast<std::size_t>(i)]);
    }
    return reshaped(std::move(tensor), {rows, -1}, true);
  }
  if (node.op_type == "Reshape") {
    if (const Attribute* shape = node.attribute("shape")) {  // opset below 5
      return reshaped(std::move(tensor), shape->ints, false);
    }
    if (node.inputs.size() < 2) return std::nullopt;
    const auto shape = follow_ints(model, node.inputs[1], depth + 1);
    if (!shape) return std::nullopt;
    return reshaped(std::move(tensor), *shape, node.int_or("allowzero", 0) != 0);
  }
  return std::nullopt;
}

bool rearranges(const Node& node) {
  constexpr std::string_view kNames[] = {"Identity",  "Cast",    "Transpose", "Squeeze",
                                         "Unsqueeze", "Flatten", "Reshape",   "DequantizeLinear"};
  return node.domain.empty() && std::ranges::find(kNames, node.op_type) != std::end(kNames) &&
         !node.inputs.empty();
}

// What is stored there, passed through the chain.
std::optional<SharedTensor> arrange(const Model& model, const Constant& source,
                                    std::optional<SharedTensor> stored, int depth) {
  for (auto node = source.chain.rbegin(); stored && node != source.chain.rend(); ++node)
    stored = apply(model, **node, std::move(*stored), depth);
  return stored;
}

std::optional<Constant> follow(const Model& model, std::string_view value, int depth) {
  if (depth > kDeepestShape) return std::nullopt;
  std::optional<Constant> constant = constant_source(model, value);
  if (!constant) return std::nullopt;
  std::optional<SharedTensor> tensor =
      arrange(model, *constant, load_source(model, *constant), depth);
  if (!tensor) return std::nullopt;
  constant->tensor = std::move(*tensor);
  return constant;
}

std::optional<TensorView> follow_shape(const Model& model, std::string_view value, int depth) {
  if (depth > kDeepestShape) return std::nullopt;
  const std::optional<Constant> source = constant_source(model, value);
  if (!source) return std::nullopt;
  const Attribute* const stored =
      source->initializer != nullptr ? nullptr : source->constant_node->attribute("value");
  std::optional<SharedTensor> tensor;
  if (source->initializer == nullptr && (stored == nullptr || stored->tensor.data() == nullptr)) {
    tensor = load_source(model, *source);  // an attribute, which has been read
  } else {
    const TensorInfo info = source->initializer != nullptr ? *source->initializer
                                                           : model.tensor_info(stored->tensor, "");
    const std::optional<DType> dtype = dtype_of(info.data_type);
    if (!dtype || !info.bytes()) return std::nullopt;
    tensor.emplace();
    tensor->dtype = *dtype;
    tensor->shape.assign(info.dims.begin(), info.dims.end());
  }
  tensor = arrange(model, *source, std::move(tensor), depth);
  if (!tensor) return std::nullopt;
  tensor->bytes = {};
  return *tensor;
}

std::optional<std::vector<std::int64_t>> follow_ints(const Model& model, std::string_view value,
                                                     int depth) {
  const std::optional<TensorView> shape = follow_shape(model, value, depth);
  if (!shape || (shape->dtype != DType::i64 && shape->dtype != DType::i32) ||
      element_count(shape->shape, shape->what) > 64)
    return std::nullopt;
  const std::optional<Constant> constant = follow(model, value, depth);
  if (!constant) return std::nullopt;
  const TensorView& view = constant->tensor;
  std::vector<double> numbers(view.count());
  decode(view.dtype, view.bytes, numbers);
  std::vector<std::int64_t> ints;
  ints.reserve(numbers.size());
  for (const double number : numbers) {
    ints.push_back(number > 9e15    ? INT64_MAX
                   : number < -9e15 ? INT64_MIN
                                    : static_cast<std::int64_t>(number));
  }
  return ints;
}

std::optional<std::vector<std::int64_t>> follow_axes(const Model& model, const Node& node,
                                                     int depth) {
  if (const Attribute* axes = node.attribute("axes")) return axes->ints;
  if (node.inputs.size() < 2 || node.inputs[1].empty()) return std::nullopt;
  auto axes = follow_ints(model, node.inputs[1], depth + 1);
  if (!axes) {
    fail(ErrorCode::unfilterable, "{}: the axes of the {} are computed, wanted constants",
         model.what(), node.describe());
  }
  return axes;
}

}  // namespace

std::optional<Constant> constant_source(const Model& model, std::string_view value) {
  Constant source;
  for (;;) {
    source.initializer = model.graph().initializer(value);
    if (source.initializer != nullptr) return source;
    const Node* const node = model.graph().producer(value);
    if (node == nullptr) return std::nullopt;
    if (node->op_type == "Constant" && node->domain.empty()) {
      source.constant_node = node;
      return source;
    }
    if (!rearranges(*node) || source.chain.size() >= kLongestChain) return std::nullopt;
    source.chain.push_back(node);
    value = node->inputs.front();
  }
}

std::optional<SharedTensor> load_source(const Model& model, const Constant& source) {
  return source.initializer != nullptr ? load_if_numeric(model, *source.initializer)
                                       : load_constant_node(model, *source.constant_node);
}

std::optional<TensorView> constant_shape(const Model& model, std::string_view value) {
  return follow_shape(model, value, 0);
}

std::optional<Constant> constant_value(const Model& model, std::string_view value) {
  return follow(model, value, 0);
}

std::optional<std::vector<std::int64_t>> constant_ints(const Model& model, std::string_view value) {
  return follow_ints(model, value, 0);
}

std::optional<std::vector<std::int64_t>> axes_of(const Model& model, const Node& node) {
  return follow_axes(model, node, 0);
}

std::map<std::string, Readers, std::less<>> readers_of(const Graph& graph) {
  std::map<std::string, Readers, std::less<>> readers;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const std::string& input : node.inputs) {
      if (!input.empty()) readers[input].nodes.push_back(i);
    }
    for (const std::string& name : node.outer_names) {
      readers[name].nodes.push_back(i);
      readers[name].subgraph = true;
    }
  }
  for (const ValueInfo& output : graph.outputs) readers[output.name].graph_output = true;
  return readers;
}

}  // namespace oubli::onnx
