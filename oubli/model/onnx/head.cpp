#include "oubli/model/onnx/head.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "oubli/onnx/shapes.h"

namespace oubli {

namespace {

using onnx::Constant;
using onnx::Model;
using onnx::Node;

constexpr std::size_t kLongestTail = 256;

bool is_any_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

// Why an operation cannot be, or lead to, a head we filter; empty if nothing special is known.
std::string reason_against(const Node& node) {
  const std::string& op = node.op_type;
  if (op.starts_with("TreeEnsemble")) {
    return "a tree ensemble has no last linear layer; retrain it without the class";
  }
  if (op.starts_with("SVM")) return "a support vector machine's votes are not linear logits";
  if (is_any_of(op, {"LinearClassifier", "ZipMap", "LabelEncoder", "Normalizer"})) {
    return "scikit-learn's classifier operators are not supported yet; export the coefficients as "
           ".npz and give the features with --features";
  }
  if (op.starts_with("QLinear") || op.starts_with("QGemm") || op.ends_with("Integer") ||
      is_any_of(op, {"DequantizeLinear", "QuantizeLinear", "DynamicQuantizeMatMul", "MatMulNBits",
                     "DynamicQuantizeLinear", "QAttention"})) {
    return "the head is quantised; filter the float model and quantise the result again";
  }
  if (node.has_subgraph || is_any_of(op, {"If", "Loop", "Scan"})) {
    return "control flow between the head and the output";
  }
  if (is_any_of(op, {"NonMaxSuppression", "RoiAlign", "ScatterND"})) {
    return "this is a detector, wanted a classifier with one prediction per input";
  }
  if (is_any_of(op, {"Concat", "Split", "Slice", "Gather", "GatherND", "Resize", "Upsample"})) {
    return "the classes are put together from several parts (a detector, a segmentation network, "
           "or "
           "several heads), wanted one last layer";
  }
  if (is_any_of(op, {"BatchNormalization", "LayerNormalization", "InstanceNormalization"})) {
    return "a normalisation stands between the last layer and the output; fold it into the layer";
  }
  return "";
}

[[noreturn]] void refuse(const Model& model, const Node& node, std::string_view otherwise) {
  const std::string known = reason_against(node);
  refuse_node(model, node, known.empty() ? otherwise : std::string_view(known));
}

// The data input to follow backwards from a node behind the logits; nothing if the node is not one
// that keeps the classes apart.
std::optional<std::string> step_back(const Model& model, const Node& node) {
  if (!node.domain.empty() || node.inputs.empty()) return std::nullopt;
  const std::string& op = node.op_type;
  if (is_any_of(op, {"Softmax",     "LogSoftmax", "Identity",  "Cast",       "Flatten",
                     "Reshape",     "Squeeze",    "Dropout",   "Unsqueeze",  "Transpose",
                     "Relu",        "Sigmoid",    "Exp",       "Log",        "Clip",
                     "HardSigmoid", "LeakyRelu",  "Tanh",      "Elu",        "Softplus",
                     "Neg",         "ArgMax",     "TopK",      "ReduceMean", "GlobalAveragePool",
                     "AveragePool", "ReduceMax",  "ReduceSum", "Hardmax",    "Reciprocal",
                     "Pad"})) {
    return node.inputs.front();
  }
  if (is_any_of(op, {"Div", "Sub", "Mul", "Add"}) && node.inputs.size() == 2) {
    const bool first_constant = onnx::constant_value(model, node.inputs[0]).has_value();
    const bool second_constant = onnx::constant_value(model, node.inputs[1]).has_value();
    if (first_constant != second_constant) return node.inputs[first_constant ? 1 : 0];
    // Two computed values: part of a softmax spelled out, exp / sum or x - max.
    if (op == "Div" || op == "Sub" || op == "Mul") return node.inputs.front();
    return std::nullopt;
  }
  if (op == "Gather" && node.inputs.size() == 2) {
    if (onnx::constant_value(model, node.inputs[1])) return node.inputs[0];  // logits[:, :, 0]
    const Node* maker = model.graph().producer(node.inputs[0]);
    if (maker == nullptr || is_any_of(maker->op_type, {"Constant", "Identity"}))
      return node.inputs[1];  // labels looked up by index
  }
  return std::nullopt;
}

bool is_float_constant(const std::optional<Constant>& constant) {
  return constant && is_float(constant->tensor.dtype);
}

// Whether a bias of that shape is added to the classes, not to the samples: they are the last axis,
// or the last but one if samples stand in columns.
bool lies_along_classes(const OnnxHead& head, const std::vector<std::size_t>& shape,
                        std::size_t classes) {
  const bool columns = head.kind == OnnxHead::Kind::matmul && head.columns;
  const std::size_t from_end = columns ? 2 : 1;
  return shape.size() >= from_end && shape[shape.size() - from_end] == classes;
}

// A bias as one number per class, whatever it is stored as: [C], [1, C], a single number; [C, 1]
// where samples stand in columns.
void check_bias(const Model& model, const Node& node, OnnxHead& head, std::size_t classes) {
  TensorView& bias = head.bias->tensor;
  head.bias_shape = bias.shape;
  const std::size_t count = bias.count();
  const bool vector = std::ranges::count_if(bias.shape, [](std::size_t n) { return n != 1; }) <= 1;
  if (count == classes && vector) {
    if (!lies_along_classes(head, bias.shape, classes)) {
      fail(ErrorCode::unfilterable,
           "{}: {}: the bias is {}, one value for each sample, wanted one for each class",
           model.what(), node.describe(), oubli::describe(bias));
    }
    bias.shape = {classes};
    return;
  }
  if (count != 1) {
    fail(ErrorCode::unfilterable, "{}: {}: the bias is {}, wanted one value for each of {} classes",
         model.what(), node.describe(), oubli::describe(bias), classes);
  }
  Tensor spread{bias.dtype, {classes}, {}};
  for (std::size_t i = 0; i < classes; ++i) {
    spread.bytes.insert(spread.bytes.end(), bias.bytes.begin(), bias.bytes.end());
  }
  auto owner = std::make_shared<const Tensor>(std::move(spread));
  head.bias->tensor = {owner->view(bias.what), owner};
}

// The second input of a Gemm or Conv.
Constant stored_weights(const Model& model, const Node& node) {
  if (node.inputs.size() < 2) refuse(model, node, "has fewer than two inputs");
  std::optional<Constant> weights = onnx::constant_value(model, node.inputs[1]);
  if (weights) return std::move(*weights);
  if (const Node* maker = model.graph().producer(node.inputs[1]))
    refuse(model, *maker, "the weights of the last layer are computed, wanted stored numbers");
  refuse(model, node, "the weights are no stored numbers");
}

OnnxHead gemm_head(const Model& model, const Node& node) {
  OnnxHead head;
  head.kind = OnnxHead::Kind::gemm;
  head.node = &node;
  head.weights = stored_weights(model, node);
  head.features = node.inputs[0];
  head.columns = node.int_or("transA", 0) != 0;
  head.logits = node.outputs.at(0);
  if (node.inputs.size() > 2 && !node.inputs[2].empty()) {
    head.bias = onnx::constant_value(model, node.inputs[2]);
    if (!head.bias) refuse(model, node, "the bias is computed, wanted stored numbers");
  }
  head.bias_unused = node.float_or("beta", 1) == 0;
  if (node.float_or("alpha", 1) == 0)
    refuse(model, node, "alpha is 0: the layer ignores its input");
  return head;
}

OnnxHead matmul_head(const Model& model, const Node& node) {
  OnnxHead head;
  head.kind = OnnxHead::Kind::matmul;
  head.node = &node;
  if (node.inputs.size() != 2) refuse(model, node, "wanted two inputs");
  std::optional<Constant> right = onnx::constant_value(model, node.inputs[1]);
  std::optional<Constant> left = onnx::constant_value(model, node.inputs[0]);
  if (right) {
    head.weights = std::move(*right);
  } else if (left) {
    head.weights = std::move(*left);
    head.weights_input = 0;
    head.columns = true;
  } else {
    for (const std::string& input : {node.inputs[1], node.inputs[0]}) {
      const Node* maker = model.graph().producer(input);
      if (maker != nullptr && !reason_against(*maker).empty()) refuse(model, *maker, "");
    }
    refuse(model, node, "multiplies two computed values, wanted stored weights");
  }
  head.features = node.inputs[1 - head.weights_input];
  head.logits = node.outputs.at(0);
  return head;
}

// The positive number that a node multiplies its other input by, or divides it by.
struct Scale {
  double factor = 1;
  std::size_t input = 0;  // the other one
};
std::optional<Scale> scale_of(const Model& model, const Node& node) {
  if (!node.domain.empty() || !is_any_of(node.op_type, {"Mul", "Div"}) || node.inputs.size() != 2)
    return std::nullopt;
  for (const std::size_t side : {std::size_t{1}, std::size_t{0}}) {
    if (node.op_type == "Div" && side == 0) continue;  // s / (W f)
    const std::optional<Constant> constant = onnx::constant_value(model, node.inputs[side]);
    if (!is_float_constant(constant)) continue;
    const TensorView& view = constant->tensor;
    if (view.count() != 1 || view.rank() > 2) return std::nullopt;  // of a higher rank than logits
    double number = 0;
    decode(view.dtype, view.bytes, std::span<double>(&number, 1));
    const double factor = node.op_type == "Div" ? 1 / number : number;
    if (!(factor > 0) || !std::isfinite(factor)) return std::nullopt;
    return Scale{factor, 1 - side};
  }
  return std::nullopt;
}

// W f + b, W f - b; s W f + b and s W f - b for a positive number s. Nothing if the Add or Sub
// `node` is none of these.
std::optional<OnnxHead> biased_matmul_head(const Model& model, const Node& node) {
  if (!is_any_of(node.op_type, {"Add", "Sub"}) || node.inputs.size() != 2) return std::nullopt;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    if (node.op_type == "Sub" && side == 0) continue;  // b - W f
    std::optional<Constant> bias = onnx::constant_value(model, node.inputs[side]);
    if (!is_float_constant(bias)) continue;
    const Node* product = model.graph().producer(node.inputs[1 - side]);
    const Node* scale_node = nullptr;
    std::optional<Scale> scale;
    // A single number may stay where it is, behind the layer and its scale.
    if (product != nullptr && bias->tensor.count() != 1 && (scale = scale_of(model, *product))) {
      scale_node = std::exchange(product, model.graph().producer(product->inputs[scale->input]));
    }
    if (product == nullptr || product->op_type != "MatMul" || !product->domain.empty()) continue;
    OnnxHead head = matmul_head(model, *product);
    head.bias_node = &node;
    head.bias_input = side;
    head.bias = std::move(bias);
    head.scale_node = scale_node;
    if (scale) head.scale = scale->factor;
    head.logits = node.outputs.at(0);
    return head;
  }
  return std::nullopt;
}

bool all_are(const onnx::Attribute* attribute, std::int64_t value) {
  return attribute == nullptr ||
         std::ranges::all_of(attribute->ints, [&](std::int64_t i) { return i == value; });
}

OnnxHead conv_head(const Model& model, const Node& node) {
  OnnxHead head;
  head.kind = OnnxHead::Kind::conv;
  head.node = &node;
  head.weights = stored_weights(model, node);
  TensorView& view = head.weights.tensor;
  const bool one_by_one =
      view.rank() > 2 && std::all_of(view.shape.begin() + 2, view.shape.end(),
                                     [](std::size_t extent) { return extent == 1; });
  if (!one_by_one || node.int_or("group", 1) != 1 || !all_are(node.attribute("pads"), 0) ||
      !all_are(node.attribute("strides"), 1)) {
    refuse(model, node,
           "a convolution makes the classes; only 1x1, ungrouped, unpadded ones of stride 1 are "
           "the same layer at every position");
  }
  head.logits_rank = view.rank();
  view.shape.resize(2);
  head.features = node.inputs[0];
  head.logits = node.outputs.at(0);
  if (node.inputs.size() > 2 && !node.inputs[2].empty()) {
    head.bias = onnx::constant_value(model, node.inputs[2]);
    if (!head.bias) refuse(model, node, "the bias is computed, wanted stored numbers");
  }
  return head;
}

// From one output back to a layer. Error{unfilterable} says why there is none.
OnnxHead head_of_output(const Model& model, const std::string& output) {
  std::string value = output;
  for (std::size_t steps = 0; steps < kLongestTail; ++steps) {
    const Node* node = model.graph().producer(value);
    if (node == nullptr) {
      fail(ErrorCode::unfilterable, "{}: output '{}' is made by no linear layer", model.what(),
           output);
    }
    if (node->domain.empty()) {
      if (node->op_type == "Gemm") return gemm_head(model, *node);
      if (node->op_type == "MatMul") return matmul_head(model, *node);
      if (node->op_type == "Conv") return conv_head(model, *node);
      if (std::optional<OnnxHead> head = biased_matmul_head(model, *node)) return std::move(*head);
    }
    const std::optional<std::string> before = step_back(model, *node);
    if (!before) {
      refuse(model, *node,
             "is none of the operations that can follow the last layer of a classifier");
    }
    value = *before;
  }
  fail(ErrorCode::unfilterable, "{}: no linear layer within {} steps of output '{}'", model.what(),
       kLongestTail, output);
}

// Whether `value` is computed from what `node` makes.
bool depends_on(const Model& model, const std::string& value, const Node& node) {
  std::set<std::string_view> needed{value};
  // Nodes stand in the order they run: one pass from the end meets every reader before its source.
  const std::vector<Node>& nodes = model.graph().nodes;
  for (auto maker = nodes.rbegin(); maker != nodes.rend(); ++maker) {
    const bool is_needed = std::ranges::any_of(
        maker->outputs, [&](const std::string& output) { return needed.contains(output); });
    if (!is_needed) continue;
    if (&*maker == &node) return true;
    needed.insert(maker->inputs.begin(), maker->inputs.end());
  }
  return false;
}

// The nodes that `value` is computed from.
std::set<const Node*> makers_of(const Model& model, const std::string& value) {
  std::set<std::string_view> needed{value};
  std::set<const Node*> makers;
  const std::vector<Node>& nodes = model.graph().nodes;
  for (auto maker = nodes.rbegin(); maker != nodes.rend(); ++maker) {
    const bool is_needed = std::ranges::any_of(
        maker->outputs, [&](const std::string& output) { return needed.contains(output); });
    if (!is_needed) continue;
    makers.insert(&*maker);
    needed.insert(maker->inputs.begin(), maker->inputs.end());
    needed.insert(maker->outer_names.begin(), maker->outer_names.end());
  }
  return makers;
}

// An output that cannot be followed back to a layer must not be the end of another head: made
// by weights that the head itself does not depend on.
void check_other_output(const Model& model, const OnnxHead& head, const std::string& output) {
  const std::set<const Node*> body = makers_of(model, head.node->outputs.at(0));
  const std::set<const Node*> makers = makers_of(model, output);
  if (makers.contains(head.node)) return;  // the walk forward judges it
  for (const Node& node : model.graph().nodes) {
    if (!makers.contains(&node) || body.contains(&node)) continue;
    const bool layer = is_any_of(node.op_type, {"Gemm", "MatMul", "Conv", "ConvTranspose", "LSTM",
                                                "GRU", "RNN"}) &&
                       std::ranges::any_of(node.inputs, [&](const std::string& input) {
                         return is_float_constant(onnx::constant_value(model, input));
                       });
    if (!layer && node.domain.empty() && !node.op_type.starts_with("QLinear") &&
        !node.op_type.ends_with("Integer")) {
      continue;
    }
    fail(ErrorCode::unfilterable,
         "{}: its outputs come from several last layers, the {} and, for '{}', the {}; wanted a "
         "classifier with one",
         model.what(), head.node->describe(), output, node.describe());
  }
}

}  // namespace

void refuse_node(const Model& model, const Node& node, std::string_view reason) {
  fail(ErrorCode::unfilterable, "{}: {}: {}", model.what(), node.describe(), reason);
}

HeadView OnnxHead::view() const {
  HeadView view;
  view.weights = weights.tensor;
  if (kind == Kind::gemm) {
    view.transposed = node->int_or("transB", 0) == 0;
    view.weight_scale = static_cast<double>(node->float_or("alpha", 1));
    view.bias_scale = static_cast<double>(node->float_or("beta", 1));
  } else if (kind == Kind::matmul) {
    view.transposed = weights_input == 1;
    view.weight_scale = scale;
  }
  if (bias_node != nullptr && bias_node->op_type == "Sub") view.bias_scale = -1;
  if (bias_unused) {
    view.bias_scale = 1;
  } else if (bias) {
    view.bias = bias->tensor;
  }
  return view;
}

std::string OnnxHead::describe() const {
  const HeadView head = view();
  return fmt::format("{}: {} classes x {} features, {}", node->describe(), head.classes(),
                     head.features(), name_of(head.weights.dtype));
}

void check_enough_left(const Model& model, const OnnxHead& head, std::size_t left) {
  if (head.tail.largest_k <= left) return;
  fail(ErrorCode::unfilterable,
       "{}: a TopK asks for the {} best classes, and only {} would be left", model.what(),
       head.tail.largest_k, left);
}

OnnxHead find_onnx_head(const Model& model, bool to_filter) {
  if (model.graph().outputs.empty()) {
    fail(ErrorCode::unfilterable, "{}: the graph has no outputs", model.what());
  }
  std::optional<OnnxHead> found;
  std::optional<Error> first_refusal;
  std::vector<std::string> refused;
  for (const onnx::ValueInfo& output : model.graph().outputs) {
    std::optional<OnnxHead> head;
    try {
      head = head_of_output(model, output.name);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unfilterable) throw;
      if (!first_refusal) first_refusal = error;
      refused.push_back(output.name);
      continue;
    }
    if (!found || depends_on(model, head->features, *found->node)) {
      found = std::move(head);  // the other one's output shows features of this layer
    } else if (found->node != head->node && !depends_on(model, found->features, *head->node)) {
      fail(ErrorCode::unfilterable,
           "{}: its outputs come from several last layers, the {} and the {}; wanted a classifier "
           "with one",
           model.what(), found->node->describe(), head->node->describe());
    }
  }
  if (!found) throw Error(*first_refusal);
  OnnxHead& head = *found;
  for (const std::string& output : refused) check_other_output(model, head, output);

  const TensorView& weights = head.weights.tensor;
  if (!is_float(weights.dtype) || weights.rank() != 2) {
    refuse(model, *head.node,
           fmt::format("its weights are {}, wanted a matrix of floating point numbers",
                       oubli::describe(weights)));
  }
  const std::size_t classes = head.view().classes();
  if (classes < (to_filter ? 3 : 2)) {
    refuse(
        model, *head.node,
        fmt::format("{} classes, wanted at least three: with one class gone nothing would be left "
                    "to tell apart",
                    classes));
  }
  if (head.view().features() == 0) refuse(model, *head.node, "its weights are empty");
  if (head.bias) {
    if (head.bias->tensor.dtype != weights.dtype) {
      refuse(model, *head.node, "weights and bias are of different types");
    }
    check_bias(model, *head.node, head, classes);
  }
  follow_tail(model, onnx::Shapes(model), head, classes);
  if (to_filter && head.tail.largest_k >= classes) {
    refuse(model, *head.node,
           fmt::format("its {} best of {} classes are asked for by a TopK; with one class "
                       "gone there are too few",
                       head.tail.largest_k, classes));
  }
  return std::move(*found);
}

}  // namespace oubli
