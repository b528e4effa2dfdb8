#include "oubli/model/onnx/layer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "oubli/model/onnx/classifier.h"
#include "oubli/model/onnx/fold.h"

namespace oubli {

namespace {

using onnx::Constant;
using onnx::Model;
using onnx::Node;

// Why an operation cannot be, or lead to, a head we filter; empty if nothing special is known.
std::string reason_against(const Node& node) {
  const std::string& op = node.op_type;
  if (op.starts_with("TreeEnsemble")) {
    return "a tree ensemble has no last linear layer; retrain it without the class";
  }
  if (op.starts_with("SVM")) {
    return "a support vector machine lets pairs of classes vote: no row belongs to one class "
           "alone; train a LinearSVC, or this one again without the class";
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
    return "a normalisation stands between the last layer and the output, which is no fixed scale "
           "and shift of every class; fold it into the layer";
  }
  return "";
}

}  // namespace

std::optional<Constant> find_constant(const Model& model, const std::string& value) {
  std::optional<Constant> constant = onnx::constant_source(model, value);
  const std::optional<TensorView> shape =
      constant ? onnx::constant_shape(model, value) : std::nullopt;
  if (!shape) return std::nullopt;
  constant->tensor = {*shape};
  return constant;
}

namespace {

std::size_t count_of(const Constant& constant) {
  return element_count(constant.tensor.shape, constant.tensor.what);
}

// The second input of a Gemm or Conv.
Constant stored_weights(const Model& model, const Node& node) {
  if (node.inputs.size() < 2) refuse_layer(model, node, "has fewer than two inputs");
  std::optional<Constant> weights = find_constant(model, node.inputs[1]);
  if (weights) return std::move(*weights);
  if (const Node* maker = model.graph().producer(node.inputs[1]))
    refuse_layer(model, *maker,
                 "the weights of the last layer are computed, wanted stored numbers");
  refuse_layer(model, node, "the weights are no stored numbers");
}

// The third, if there is one.
std::optional<Constant> stored_bias(const Model& model, const Node& node) {
  if (node.inputs.size() < 3 || node.inputs[2].empty()) return std::nullopt;
  std::optional<Constant> bias = find_constant(model, node.inputs[2]);
  if (!bias) refuse_layer(model, node, "the bias is computed, wanted stored numbers");
  return bias;
}

OnnxHead gemm_head(const Model& model, const Node& node) {
  OnnxHead head;
  head.kind = OnnxHead::Kind::gemm;
  head.node = &node;
  head.weights = stored_weights(model, node);
  head.features = node.inputs[0];
  head.columns = node.int_or("transA", 0) != 0;
  head.logits = node.outputs.at(0);
  head.bias = stored_bias(model, node);
  head.bias_unused = node.float_or("beta", 1) == 0;
  if (node.float_or("alpha", 1) == 0)
    refuse_layer(model, node, "alpha is 0: the layer ignores its input");
  return head;
}

OnnxHead matmul_head(const Model& model, const Node& node) {
  OnnxHead head;
  head.kind = OnnxHead::Kind::matmul;
  head.node = &node;
  if (node.inputs.size() != 2) refuse_layer(model, node, "wanted two inputs");
  std::optional<Constant> right = find_constant(model, node.inputs[1]);
  std::optional<Constant> left = find_constant(model, node.inputs[0]);
  if (right) {
    head.weights = std::move(*right);
  } else if (left) {
    head.weights = std::move(*left);
    head.weights_input = 0;
    head.columns = true;
  } else {
    for (const std::string& input : {node.inputs[1], node.inputs[0]}) {
      const Node* maker = model.graph().producer(input);
      if (maker != nullptr && !reason_against(*maker).empty()) refuse_layer(model, *maker, "");
    }
    refuse_layer(model, node, "multiplies two computed values, wanted stored weights");
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
    std::optional<Constant> constant = find_constant(model, node.inputs[side]);
    if (!constant || !is_float(constant->tensor.dtype)) continue;
    // Of a higher rank than logits, or not one number.
    if (count_of(*constant) != 1 || constant->tensor.rank() > 2) return std::nullopt;
    constant = onnx::constant_value(model, node.inputs[side]);
    double number = 0;
    decode(constant->tensor.dtype, constant->tensor.bytes, std::span<double>(&number, 1));
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
    std::optional<Constant> bias = find_constant(model, node.inputs[side]);
    if (!bias || !is_float(bias->tensor.dtype)) continue;
    const Node* product = model.graph().producer(node.inputs[1 - side]);
    const Node* scale_node = nullptr;
    std::optional<Scale> scale;
    // A single number may stay where it is, behind the layer and its scale.
    if (product != nullptr && count_of(*bias) != 1 && (scale = scale_of(model, *product))) {
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
  const TensorView& view = head.weights.tensor;
  const bool one_by_one =
      view.rank() > 2 && std::all_of(view.shape.begin() + 2, view.shape.end(),
                                     [](std::size_t extent) { return extent == 1; });
  if (!one_by_one || node.int_or("group", 1) != 1 || !all_are(node.attribute("pads"), 0) ||
      !all_are(node.attribute("strides"), 1)) {
    refuse_layer(
        model, node,
        "a convolution makes the classes; only 1x1, ungrouped, unpadded ones of stride 1 are "
        "the same layer at every position");
  }
  head.logits_rank = view.rank();
  head.features = node.inputs[0];
  head.logits = node.outputs.at(0);
  head.bias = stored_bias(model, node);
  return head;
}

}  // namespace

bool is_any_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

void refuse_layer(const Model& model, const Node& node, std::string_view otherwise) {
  const std::string known = reason_against(node);
  refuse_node(model, node, known.empty() ? otherwise : std::string_view(known));
}

namespace {

std::optional<OnnxHead> plain_layer_at(const Model& model, const Node& node) {
  if (!node.domain.empty()) return std::nullopt;
  if (node.op_type == "Gemm") return gemm_head(model, node);
  if (node.op_type == "MatMul") return matmul_head(model, node);
  if (node.op_type == "Conv") return conv_head(model, node);
  return biased_matmul_head(model, node);
}

}  // namespace

std::optional<OnnxHead> layer_at(const Model& model, const Node& node) {
  if (std::optional<OnnxHead> head = integer_layer_at(model, node)) return head;
  if (std::optional<OnnxHead> head = linear_classifier_at(model, node)) return head;
  if (std::optional<OnnxHead> head = plain_layer_at(model, node)) return head;
  return folded_layer_at(model, node,
                         [&](const Node& inner) { return plain_layer_at(model, inner); });
}

std::optional<std::string> step_back(const Model& model, const Node& node) {
  if (node.inputs.empty()) return std::nullopt;
  const std::string& op = node.op_type;
  if (is_label_operation(node) && op != "ArrayFeatureExtractor") return node.inputs.front();
  if (!node.domain.empty() && op != "ArrayFeatureExtractor") return std::nullopt;
  if (is_any_of(op, {"Softmax",
                     "LogSoftmax",
                     "Identity",
                     "Cast",
                     "Flatten",
                     "Reshape",
                     "Squeeze",
                     "Dropout",
                     "Unsqueeze",
                     "Transpose",
                     "Relu",
                     "Sigmoid",
                     "Exp",
                     "Log",
                     "Clip",
                     "HardSigmoid",
                     "LeakyRelu",
                     "Tanh",
                     "Elu",
                     "Softplus",
                     "Neg",
                     "ArgMax",
                     "TopK",
                     "ReduceMean",
                     "GlobalAveragePool",
                     "AveragePool",
                     "Resize",
                     "Upsample",
                     "ReduceMax",
                     "ReduceSum",
                     "Hardmax",
                     "Reciprocal",
                     "Pad",
                     "QuantizeLinear",
                     "DequantizeLinear"})) {
    return node.inputs.front();
  }
  if (is_any_of(op, {"Div", "Sub", "Mul", "Add", "Max"}) && node.inputs.size() == 2) {
    const bool first_constant = onnx::constant_shape(model, node.inputs[0]).has_value();
    const bool second_constant = onnx::constant_shape(model, node.inputs[1]).has_value();
    if (first_constant != second_constant) return node.inputs[first_constant ? 1 : 0];
    // Two computed values: part of a softmax spelled out, exp / sum or x - max.
    if (op == "Div" || op == "Sub" || op == "Mul") return node.inputs.front();
    return std::nullopt;
  }
  if (is_any_of(op, {"Gather", "ArrayFeatureExtractor"}) && node.inputs.size() == 2) {
    if (onnx::constant_shape(model, node.inputs[1])) return node.inputs[0];  // logits[:, :, 0]
    const Node* maker = model.graph().producer(node.inputs[0]);
    if (maker == nullptr || is_any_of(maker->op_type, {"Constant", "Identity"}))
      return node.inputs[1];  // labels looked up by index
  }
  return std::nullopt;
}

}  // namespace oubli
