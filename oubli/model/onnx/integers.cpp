#include "oubli/model/onnx/integers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "oubli/model/onnx/head.h"
#include "oubli/model/onnx/layer.h"

namespace oubli {

namespace {

using onnx::Constant;
using onnx::Model;
using onnx::Node;
using Part = OnnxIntegers::Part;

constexpr std::string_view kMicrosoft = "com.microsoft";

bool is_op(const Node* node, std::string_view op, std::string_view domain = "") {
  return node != nullptr && node->op_type == op && node->domain == domain;
}

bool has_input(const Node& node, std::size_t input) {
  return input < node.inputs.size() && !node.inputs[input].empty();
}

std::vector<double> numbers_of(const TensorView& tensor) {
  std::vector<double> values(tensor.count());
  decode(tensor.dtype, tensor.bytes, values);
  return values;
}

std::optional<double> only_number(const Model& model, const Node& node, std::size_t input) {
  const auto shape =
      has_input(node, input) ? onnx::constant_shape(model, node.inputs[input]) : std::nullopt;
  if (!shape || element_count(shape->shape, shape->what) != 1) return std::nullopt;
  const auto constant = onnx::constant_value(model, node.inputs[input]);
  return constant ? std::optional(numbers_of(constant->tensor).front()) : std::nullopt;
}

// The numbers of 8 bits, of either sign, that stand for multiples of `scale` from `zero`.
OnnxRounding rounding_of(double scale, double zero, bool is_signed) {
  const double least = is_signed ? -128 : 0;
  return {scale, scale * (least - zero), scale * (least + 255 - zero)};
}

// ---- layers ----

// The weights of an integer product: stored numbers of 8 bits.
Constant stored_integers(const Model& model, const Node& node, std::size_t input) {
  std::optional<Constant> constant =
      has_input(node, input) ? find_constant(model, node.inputs[input]) : std::nullopt;
  if (!constant)
    refuse_node(model, node, "the weights of the quantised layer are computed, wanted stored ones");
  return std::move(*constant);
}

OnnxHead qgemm_head(const Model& model, const Node& node) {
  OnnxHead head;
  head.kind = OnnxHead::Kind::gemm;
  head.node = &node;
  head.weights_input = 3;
  head.weights = stored_integers(model, node, 3);
  head.features = node.inputs[0];
  head.columns = node.int_or("transA", 0) != 0;
  head.logits = node.outputs.at(0);
  head.bias_input = 6;
  if (has_input(node, 6)) head.bias = stored_integers(model, node, 6);
  if (!(node.float_or("alpha", 1) > 0))
    refuse_node(model, node, "alpha is not above 0: the layer ignores or negates its input");
  head.features_in_8_bits = {node.inputs.at(1), has_input(node, 2) ? node.inputs[2] : ""};
  if (has_input(node, 7))
    head.logits_in_8_bits = {node.inputs[7], has_input(node, 8) ? node.inputs[8] : ""};
  return head;
}

OnnxHead qlinear_matmul_head(const Model& model, const Node& node) {
  OnnxHead head;
  head.kind = OnnxHead::Kind::matmul;
  head.node = &node;
  if (node.inputs.size() != 8) refuse_node(model, node, "wanted eight inputs");
  head.weights_input = 3;
  head.weights = stored_integers(model, node, 3);
  head.features = node.inputs[0];
  head.logits = node.outputs.at(0);
  head.features_in_8_bits = {node.inputs[1], node.inputs[2]};
  head.logits_in_8_bits = {node.inputs[6], node.inputs[7]};
  return head;
}

// QLinearAdd of a QLinearMatMul and stored numbers.
std::optional<OnnxHead> biased_qlinear_head(const Model& model, const Node& node) {
  if (node.inputs.size() < 7) return std::nullopt;
  for (const std::size_t side : {std::size_t{3}, std::size_t{0}}) {
    const Node* const product = model.graph().producer(node.inputs[3 - side]);
    std::optional<Constant> bias = find_constant(model, node.inputs[side]);
    if (!bias || !is_op(product, "QLinearMatMul")) continue;
    OnnxHead head = qlinear_matmul_head(model, *product);
    head.bias_node = &node;
    head.bias_input = side;
    head.bias = std::move(bias);
    head.logits = node.outputs.at(0);
    head.logits_in_8_bits = {node.inputs[6], has_input(node, 7) ? node.inputs[7] : ""};
    return head;
  }
  return std::nullopt;
}

// Cast(MatMulInteger(...)) times the product of two scales, the stored one that of the weights.
std::optional<OnnxHead> matmul_integer_head(const Model& model, const Node& node) {
  if (!is_op(&node, "Mul") || node.inputs.size() != 2) return std::nullopt;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const Node* const cast = model.graph().producer(node.inputs[side]);
    if (!is_op(cast, "Cast") || cast->inputs.empty()) continue;
    const Node* const product = model.graph().producer(cast->inputs[0]);
    const Node* const scales = model.graph().producer(node.inputs[1 - side]);
    if (!is_op(product, "MatMulInteger") || !is_op(scales, "Mul") || scales->inputs.size() != 2 ||
        product->inputs.size() < 2)
      continue;
    for (const std::size_t stored : {std::size_t{1}, std::size_t{0}}) {
      if (!onnx::constant_shape(model, scales->inputs[stored]) ||
          onnx::constant_shape(model, scales->inputs[1 - stored]))
        continue;
      OnnxHead head;
      head.kind = OnnxHead::Kind::matmul;
      head.node = product;
      head.weights = stored_integers(model, *product, 1);
      head.features = product->inputs[0];
      head.logits = node.outputs.at(0);
      head.between = {cast, &node};
      head.features_in_8_bits = {scales->inputs[1 - stored],
                                 has_input(*product, 2) ? product->inputs[2] : ""};
      head.integers.emplace().scale_product = scales;
      head.integers->scales = {scales, stored, {}, {}};
      return head;
    }
  }
  return std::nullopt;
}

std::optional<OnnxHead> biased_matmul_integer_head(const Model& model, const Node& node) {
  if (!is_op(&node, "Add") || node.inputs.size() != 2) return std::nullopt;
  for (const std::size_t side : {std::size_t{1}, std::size_t{0}}) {
    const Node* const product = model.graph().producer(node.inputs[1 - side]);
    std::optional<Constant> bias = find_constant(model, node.inputs[side]);
    if (!bias || product == nullptr) continue;
    std::optional<OnnxHead> head = matmul_integer_head(model, *product);
    if (!head) continue;
    head->bias_node = &node;
    head->bias_input = side;
    head->bias = std::move(bias);
    head->logits = node.outputs.at(0);
    return head;
  }
  return std::nullopt;
}

// ---- parts ----

class IntegerLoader {
 public:
  IntegerLoader(const Model& model, OnnxHead& head) : model_(model), head_(head) {}

  // A Gemm, MatMul or Conv that reads numbers through DequantizeLinear, and has read them.
  void load_dequantised() {
    const Node* const dequantise = dequantiser(head_.weights);
    if (dequantise == nullptr) return;
    OnnxIntegers integers;
    for (const Node* const node : head_.weights.chain) {
      if (node == dequantise) break;
      const auto* const perm = node->attribute("perm");
      const bool swaps = node->op_type == "Transpose" &&
                         (perm == nullptr || perm->ints == std::vector<std::int64_t>{1, 0});
      if (!swaps && node->op_type != "Identity") return refuse_chain(*node);
      if (swaps) integers.turned = !integers.turned;
    }
    if (head_.weights.chain.back() != dequantise) return refuse_chain(*head_.weights.chain.back());
    const HeadView view = head_.view();
    integers.weights = part(*dequantise, 0);
    const std::size_t axis = (view.transposed ? 1 : 0) ^ (integers.turned ? 1 : 0);
    integers.weights.class_axis = axis;
    integers.scales = part(*dequantise, 1);
    if (has_input(*dequantise, 2)) integers.zeros = part(*dequantise, 2);
    const std::size_t rank = integers.weights.constant.tensor.rank();
    std::int64_t along = dequantise->int_or("axis", 1);
    if (along < 0) along += static_cast<std::int64_t>(rank);
    for (Part* const scale : {&integers.scales, integers.zeros ? &*integers.zeros : nullptr})
      if (scale != nullptr && scale->constant.tensor.count() > 1 &&
          along == static_cast<std::int64_t>(axis))
        scale->class_axis = 0;
    integers.grid.scale_per_class = model_.opset() >= 13;
    head_.integers = std::move(integers);
    load_dequantised_bias(view);
    finish();
  }

  // QGemm, QLinearMatMul, MatMulInteger.
  void load_products() {
    if (!head_.integers) head_.integers.emplace();
    OnnxIntegers& integers = *head_.integers;
    const Node& node = *head_.node;
    const bool dynamic = integers.scale_product != nullptr;
    integers.weights = part(node, head_.weights_input);
    if (integers.weights.constant.tensor.rank() != 2)
      refuse_node(model_, node,
                  fmt::format("its weights are {}, wanted a matrix",
                              describe(integers.weights.constant.tensor)));
    const std::size_t axis =
        head_.kind == OnnxHead::Kind::gemm && node.int_or("transB", 0) != 0 ? 0 : 1;
    integers.weights.class_axis = axis;
    integers.scales =
        dynamic ? part(*integers.scale_product, integers.scales.input) : part(node, 4);
    const std::size_t zero = dynamic ? 3 : 5;
    if (has_input(node, zero)) integers.zeros = part(node, zero);
    const std::size_t classes = integers.weights.constant.tensor.shape[axis];
    for (Part* const scale : {&integers.scales, integers.zeros ? &*integers.zeros : nullptr}) {
      if (scale == nullptr || scale->constant.tensor.count() == 1) continue;
      const TensorView& tensor = scale->constant.tensor;
      if (tensor.count() != classes || tensor.shape.empty() || tensor.shape.back() != classes)
        refuse_node(model_, node,
                    fmt::format("a scale or zero point is {}, wanted one for all or "
                                "one for each of {} classes",
                                describe(tensor), classes));
      scale->class_axis = tensor.rank() - 1;
    }
    dequantise_weights();
    load_integer_bias(classes);
    finish();
  }

 private:
  void refuse_chain(const Node& node) const {
    refuse_node(model_, node,
                "stands between the quantised weights and the layer; wanted them "
                "stored as they are used, or transposed");
  }

  static const Node* dequantiser(const Constant& constant) {
    const auto found = std::ranges::find(constant.chain, "DequantizeLinear", &Node::op_type);
    return found == constant.chain.end() ? nullptr : *found;
  }

  Part part(const Node& node, std::size_t input) const {
    std::optional<Constant> constant =
        has_input(node, input) ? onnx::constant_value(model_, node.inputs[input]) : std::nullopt;
    if (!constant)
      refuse_node(model_, node,
                  fmt::format("its input {} is computed, wanted stored numbers", input));
    return {&node, input, std::move(*constant), std::nullopt};
  }

  // A bias behind a DequantizeLinear of its own.
  void load_dequantised_bias(const HeadView& view) {
    OnnxIntegers& integers = *head_.integers;
    const Node* const dequantise = head_.bias ? dequantiser(*head_.bias) : nullptr;
    if (dequantise == nullptr) return;
    if (head_.bias->chain.size() != 1) return refuse_chain(*head_.bias->chain.front());
    const std::size_t classes = view.classes();
    integers.bias = part(*dequantise, 0);
    integers.bias_scales = part(*dequantise, 1);
    if (has_input(*dequantise, 2)) integers.bias_zeros = part(*dequantise, 2);
    for (Part* const each : {&*integers.bias, &*integers.bias_scales,
                             integers.bias_zeros ? &*integers.bias_zeros : nullptr})
      if (each != nullptr && each->constant.tensor.count() == classes) {
        const auto& shape = each->constant.tensor.shape;
        each->class_axis =
            static_cast<std::size_t>(std::ranges::find(shape, classes) - shape.begin());
      }
    // By rule the product of the scales of input and weights.
    const Node* const input = model_.graph().producer(head_.features);
    const auto factor =
        is_op(input, "DequantizeLinear") ? only_number(model_, *input, 1) : std::nullopt;
    integers.grid.bias = HeadGrid::Bias::products;
    integers.grid.bias_factor = factor.value_or(0);
    const std::vector<double> scales = numbers_of(integers.scales.constant.tensor);
    const std::vector<double> found = numbers_of(integers.bias_scales->constant.tensor);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double wanted = factor.value_or(0) * scales[scales.size() == 1 ? 0 : i % scales.size()];
      if (!(std::abs(found[i] - wanted) <= 1e-6 * wanted))
        integers.no_fresh_grid =
            "the scale of the bias is not that of the input times that of the "
            "weights";
    }
    if (integers.bias->constant.tensor.dtype != DType::i32)
      integers.no_fresh_grid = "the bias is not stored in 32 bits";
  }

  void dequantise_weights() {
    const OnnxIntegers& integers = *head_.integers;
    const TensorView& stored = integers.weights.constant.tensor;
    const std::vector<double> scales = numbers_of(integers.scales.constant.tensor);
    const std::vector<double> zeros =
        integers.zeros ? numbers_of(integers.zeros->constant.tensor) : std::vector<double>{0};
    std::vector<double> values = numbers_of(stored);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t c =
          *integers.weights.class_axis == 0 ? i / stored.shape[1] : i % stored.shape[1];
      values[i] =
          (values[i] - zeros[zeros.size() == 1 ? 0 : c]) * scales[scales.size() == 1 ? 0 : c];
    }
    head_.weights = as_floats(values, stored);
  }

  void load_integer_bias(std::size_t classes) {
    OnnxIntegers& integers = *head_.integers;
    const bool gemm = head_.kind == OnnxHead::Kind::gemm;
    if (integers.scale_product == nullptr)
      integers.grid.bias = gemm ? HeadGrid::Bias::products : HeadGrid::Bias::own_scale;
    if (gemm) {
      const auto factor = only_number(model_, *head_.node, 1);
      if (!factor) refuse_node(model_, *head_.node, "the scale of its input is computed");
      integers.grid.bias_factor = *factor * static_cast<double>(head_.node->float_or("alpha", 1));
    }
    if (!head_.bias) return;
    if (integers.scale_product != nullptr) {  // floats, behind the scales
      head_.bias = part(*head_.bias_node, head_.bias_input).constant;
      return;
    }
    const bool own = head_.bias_node != nullptr;
    const Node& node = own ? *head_.bias_node : *head_.node;
    integers.bias = part(node, head_.bias_input);
    const TensorView& stored = integers.bias->constant.tensor;
    if (stored.count() != classes || stored.shape.empty() || stored.shape.back() != classes)
      refuse_node(model_, node,
                  fmt::format("the bias is {}, wanted one number for each of {} classes",
                              describe(stored), classes));
    integers.bias->class_axis = stored.rank() - 1;
    std::vector<double> values = numbers_of(stored);
    if (own) {
      integers.bias_scales = part(node, head_.bias_input + 1);
      if (has_input(node, head_.bias_input + 2))
        integers.bias_zeros = part(node, head_.bias_input + 2);
      const double scale = numbers_of(integers.bias_scales->constant.tensor).at(0);
      const double zero =
          integers.bias_zeros ? numbers_of(integers.bias_zeros->constant.tensor).at(0) : 0;
      for (double& value : values) value = scale * (value - zero);
    } else {
      const std::vector<double> scales = numbers_of(integers.scales.constant.tensor);
      for (std::size_t j = 0; j < values.size(); ++j)
        values[j] *= bias_step(integers.grid.bias_factor, scales[scales.size() == 1 ? 0 : j]);
    }
    head_.bias = as_floats(values, stored);
  }

  static Constant as_floats(const std::vector<double>& values, const TensorView& stored) {
    Tensor tensor = to_tensor(values, DType::f32);
    tensor.shape = stored.shape;
    Constant constant;
    constant.tensor = share(std::move(tensor), stored.what);
    return constant;
  }

  void finish() {
    OnnxIntegers& integers = *head_.integers;
    const TensorView& stored = integers.weights.constant.tensor;
    if (stored.dtype != DType::i8 && stored.dtype != DType::u8)
      refuse_node(
          model_, *head_.node,
          fmt::format("its weights are {}, wanted whole numbers of 8 bits", describe(stored)));
    const std::vector<double> scales = numbers_of(integers.scales.constant.tensor);
    for (const double scale : scales)
      if (!(scale > 0) || !std::isfinite(scale))
        refuse_node(model_, *head_.node, fmt::format("a scale of {:.3g}, wanted above 0", scale));
    integers.grid.old_step = std::ranges::max(scales);
    // Some processors add up products of 8 bits in 16: exporters then leave a bit unused.
    double most = 0;
    const std::vector<double> zeros =
        integers.zeros ? numbers_of(integers.zeros->constant.tensor) : std::vector<double>{0};
    for (const double value : numbers_of(stored))
      most = std::max(most, std::abs(value - zeros.front()));
    integers.grid.levels = most <= 64 ? 64 : 127;
    if (stored.dtype == DType::u8 && !integers.zeros)
      integers.no_fresh_grid = "its whole numbers are not below 0";
  }

  const Model& model_;
  OnnxHead& head_;
};

bool is_signed_type(const Model& model, const std::optional<OnnxScaled>& scaled) {
  const auto zero =
      scaled && !scaled->zero.empty() ? onnx::constant_shape(model, scaled->zero) : std::nullopt;
  return zero && zero->dtype == DType::i8;
}

// The rounding that `node` does by its inputs `scale` and `scale` + 1.
OnnxRounding rounding_at(const Model& model, const Node& node, std::size_t scale) {
  const auto step = only_number(model, node, scale);
  if (!step || !(*step > 0)) refuse_node(model, node, "the scale of its result is computed");
  const double zero = only_number(model, node, scale + 1).value_or(0);
  const OnnxScaled scaled{node.inputs[scale],
                          has_input(node, scale + 1) ? node.inputs[scale + 1] : ""};
  return rounding_of(*step, zero, is_signed_type(model, scaled));
}

// The one node that reads a value, if nothing else does.
const Node* only_reader_of(const Model& model, const std::string& value) {
  const Node* found = nullptr;
  for (const Node& node : model.graph().nodes) {
    const auto reads =
        std::ranges::count(node.inputs, value) + std::ranges::count(node.outer_names, value);
    if (reads == 0) continue;
    if (found != nullptr || reads > 1) return nullptr;
    found = &node;
  }
  return model.graph().is_output(value) ? nullptr : found;
}

}  // namespace

bool multiplies_integers(const Node& node) {
  return is_any_of(node.op_type, {"QGemm", "QLinearMatMul", "MatMulInteger"});
}

std::optional<OnnxHead> integer_layer_at(const Model& model, const Node& node) {
  if (is_op(&node, "QGemm", kMicrosoft)) return qgemm_head(model, node);
  if (is_op(&node, "QLinearMatMul")) return qlinear_matmul_head(model, node);
  if (is_op(&node, "QLinearAdd", kMicrosoft)) return biased_qlinear_head(model, node);
  if (auto head = matmul_integer_head(model, node)) return head;
  return biased_matmul_integer_head(model, node);
}

void load_integers(const Model& model, OnnxHead& head) {
  IntegerLoader loader(model, head);
  if (multiplies_integers(*head.node))
    loader.load_products();
  else
    loader.load_dequantised();
}

void find_rounding(const Model& model, OnnxHead& head) {
  const Node* const reader = only_reader_of(model, head.made());
  if (head.logits_in_8_bits) {
    const Node& last = head.bias_node != nullptr ? *head.bias_node : *head.node;
    const std::size_t scale = last.op_type == "QGemm" ? 7 : 6;
    head.rounding.logits = rounding_at(model, last, scale);
    if (head.bias_node != nullptr) head.rounding.product = rounding_at(model, *head.node, 6);
    if (is_op(reader, "DequantizeLinear")) head.dequantise = reader;
  } else if (is_op(reader, "QuantizeLinear")) {
    const Node* const back = only_reader_of(model, reader->outputs[0]);
    if (!is_op(back, "DequantizeLinear") || !only_number(model, *reader, 1) ||
        only_number(model, *reader, 1) != only_number(model, *back, 1) ||
        only_number(model, *reader, 2) != only_number(model, *back, 2))
      return;
    head.quantise = reader;
    head.dequantise = back;
    head.rounding.logits = rounding_at(model, *reader, 1);
    head.logits = back->outputs[0];
  }
  if (head.as_floats && head.logits_in_8_bits && head.dequantise == nullptr)
    refuse_node(model, *head.node,
                "its 8-bit logits are read by something else than one DequantizeLinear, which "
                "--float-head would leave nothing to read");
}

}  // namespace oubli
