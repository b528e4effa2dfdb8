#include "oubli/model/onnx/integer_rewrite.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "oubli/base/error.h"
#include "oubli/onnx/builder.h"
#include "oubli/onnx/edit.h"
#include "oubli/onnx/schema.h"

namespace oubli {

namespace {

namespace schema = onnx::schema;
using onnx::Node;
using Part = OnnxIntegers::Part;

// The entries `retained` along one axis.
Tensor cut(const TensorView& old, std::size_t axis, std::span<const std::size_t> retained) {
  Tensor tensor{old.dtype, old.shape, {}};
  tensor.shape[axis] = retained.size();
  std::size_t run = size_of(old.dtype);
  for (std::size_t i = axis + 1; i < old.rank(); ++i) run *= old.shape[i];
  const std::size_t extent = old.shape[axis];
  for (std::size_t begin = 0; begin < old.bytes.size(); begin += run * extent)
    for (const std::size_t j : retained) {
      const auto entry = old.bytes.subspan(begin + j * run, run);
      tensor.bytes.insert(tensor.bytes.end(), entry.begin(), entry.end());
    }
  return tensor;
}

// Whole numbers plus `zero`, in 8 or 32 bits.
Tensor integers(DType dtype, std::vector<std::size_t> shape, std::span<const std::int32_t> values,
                std::int32_t zero) {
  Tensor tensor{dtype, std::move(shape), {}};
  for (const std::int32_t value : values) {
    const auto bits = static_cast<std::uint32_t>(value + zero);
    for (std::size_t i = 0; i < size_of(dtype); ++i)
      tensor.bytes.push_back(static_cast<std::byte>(bits >> (8 * i)));
  }
  return tensor;
}

// What a fresh grid has as its zero: the middle of the type.
std::int32_t middle_of(DType dtype) { return dtype == DType::u8 ? 128 : 0; }

class IntegerRewriter {
 public:
  IntegerRewriter(onnx::Editor& edit, const OnnxHead& head, std::span<const std::size_t> retained)
      : edit_(edit), head_(head), parts_(*head.integers), retained_(retained) {}

  void keep_rows() {
    check_own();
    for (const Part* const part : all_parts())
      if (part->class_axis) put(*part, cut(part->constant.tensor, *part->class_axis, retained_));
  }

  void write(const NewHead& new_head) {
    const std::string& what = edit_.model().what();
    if (!parts_.no_fresh_grid.empty())
      refuse_node(edit_.model(), *head_.node,
                  fmt::format("the method needs numbers on another grid, and {}; use --float-head "
                              "or --method naive",
                              parts_.no_fresh_grid));
    if (new_head.bias_added && parts_.grid.bias == HeadGrid::Bias::own_scale)
      refuse_node(
          edit_.model(), *head_.node,
          "the solver needs a bias, which the quantised layer has no room for; use --solver "
          "paper or --float-head");
    check_own();
    const QuantisedHead made = quantise(new_head, head_.view().transposed, parts_.grid, what);
    write_weights(made);
    if (parts_.bias)
      write_bias(made);
    else if (new_head.bias_added && parts_.grid.bias == HeadGrid::Bias::products)
      add_bias(made);
  }

 private:
  std::vector<const Part*> all_parts() const {
    std::vector<const Part*> all{&parts_.weights, &parts_.scales};
    for (const auto* const part :
         {&parts_.zeros, &parts_.bias, &parts_.bias_scales, &parts_.bias_zeros})
      if (*part) all.push_back(&**part);
    return all;
  }

  // What the layer's own nodes make of the numbers must not be read by anything else.
  void check_own() const {
    const auto check = [&](const onnx::Constant& used, const Node& consumer, std::size_t input) {
      const Node* reader = &consumer;
      std::string value = consumer.inputs[input];
      for (const Node* const node : used.chain) {
        if (!edit_.only_reader(value, *reader))
          refuse_node(edit_.model(), *node,
                      "what it makes of the quantised numbers is read elsewhere, too (tied "
                      "weights); use --float-head");
        reader = node;
        value = node->inputs[0];
      }
    };
    check(head_.weights, *head_.node, head_.weights_input);
    if (parts_.bias && head_.bias)
      check(*head_.bias, head_.bias_node != nullptr ? *head_.bias_node : *head_.node,
            head_.bias_input);
  }

  void put(const Part& part, const Tensor& tensor) {
    const std::string& value = part.node->inputs[part.input];
    const bool tells = &part == &parts_.weights || (parts_.bias && &part == &*parts_.bias);
    if (tells || edit_.only_reader(value, *part.node))
      return edit_.replace_constant(*part.node, part.input, part.constant, tensor, tensor.shape,
                                    tensor.shape);
    const std::string name = edit_.fresh_name(value);  // scales and zeros may have other readers
    edit_.add_initializer(name, tensor, tensor.shape);
    edit_.set_input(*part.node, part.input, name);
  }

  // DequantizeLinear is told along which axis its scales lie.
  void set_axis(const Node& node, std::size_t axis) {
    if (node.op_type != "DequantizeLinear") return;
    onnx::Message& message = edit_.node_message(node);
    onnx::Message attribute = onnx::attribute_message("axis", static_cast<std::int64_t>(axis));
    if (const onnx::Attribute* const old = node.attribute("axis"))
      message.fields[old->field] =
          onnx::message_field(schema::node::kAttribute, std::move(attribute));
    else
      message.add(onnx::message_field(schema::node::kAttribute, std::move(attribute)));
  }

  std::vector<std::size_t> scale_shape(const TensorView& old) const {
    return parts_.grid.scale_per_class ? std::vector{retained_.size()} : old.shape;
  }

  void put_scales(const Part& part, std::span<const double> per_class) {
    std::vector<double> scales(per_class.begin(), per_class.end());
    const std::vector<std::size_t> shape = scale_shape(part.constant.tensor);
    scales.resize(element_count(shape, "scales"));
    Tensor tensor = to_tensor(scales, DType::f32);
    tensor.shape = shape;
    put(part, tensor);
  }

  void put_zeros(const Part& part, bool like_scales) {
    const TensorView& old = part.constant.tensor;
    const bool spread = like_scales || old.count() > 1;
    std::vector<std::size_t> shape = spread ? scale_shape(old) : old.shape;
    const std::vector<std::int32_t> zeros(element_count(shape, "zero points"));
    put(part, integers(old.dtype, std::move(shape), zeros, middle_of(old.dtype)));
  }

  void write_weights(const QuantisedHead& made) {
    const TensorView& old = parts_.weights.constant.tensor;
    std::vector<std::size_t> shape = old.shape;
    shape[*parts_.weights.class_axis] = retained_.size();
    std::vector<std::int32_t> values = made.weights;
    if (parts_.turned)
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = made.weights[i % shape[1] * shape[0] + i / shape[1]];
    put(parts_.weights, integers(old.dtype, shape, values, middle_of(old.dtype)));
    put_scales(parts_.scales, std::vector<double>(made.scales.begin(), made.scales.end()));
    if (parts_.zeros) put_zeros(*parts_.zeros, parts_.scale_product == nullptr);
    if (parts_.grid.scale_per_class) set_axis(*parts_.scales.node, *parts_.weights.class_axis);
  }

  void write_bias(const QuantisedHead& made) {
    const TensorView& old = parts_.bias->constant.tensor;
    std::vector<std::size_t> shape = old.shape;
    shape[*parts_.bias->class_axis] = retained_.size();
    put(*parts_.bias, integers(old.dtype, shape, made.bias, middle_of(old.dtype)));
    if (!parts_.bias_scales) return;  // the product of others
    if (parts_.grid.bias == HeadGrid::Bias::own_scale) {
      Tensor scale = to_tensor(std::vector<double>{made.bias_scales.front()}, DType::f32);
      scale.shape = parts_.bias_scales->constant.tensor.shape;
      put(*parts_.bias_scales, scale);
      if (parts_.bias_zeros)
        put(*parts_.bias_zeros, integers(old.dtype, parts_.bias_zeros->constant.tensor.shape,
                                         std::vector{0}, middle_of(old.dtype)));
      return;
    }
    put_scales(*parts_.bias_scales, made.bias_scales);
    if (parts_.bias_zeros) put_zeros(*parts_.bias_zeros, true);
    if (parts_.grid.scale_per_class) set_axis(*parts_.bias_scales->node, *parts_.bias->class_axis);
  }

  void add_bias(const QuantisedHead& made) {
    const std::string name = edit_.fresh_name(head_.node->inputs[head_.weights_input] + "_bias");
    edit_.add_initializer(name, integers(DType::i32, {retained_.size()}, made.bias, 0),
                          {retained_.size()});
    edit_.put_input(*head_.node, head_.bias_input, name);
  }

  onnx::Editor& edit_;
  const OnnxHead& head_;
  const OnnxIntegers& parts_;
  std::span<const std::size_t> retained_;
};

// Nodes that go, and with them what only they read.
void drop_nodes(onnx::Editor& edit, std::span<const Node* const> nodes,
                std::span<const std::string> needed) {
  for (const Node* const node : nodes) edit.drop_dead_node(*node);
  for (const Node* const node : nodes)
    for (const std::string& input : node->inputs) {
      if (input.empty() || edit.is_read(input) || std::ranges::find(needed, input) != needed.end())
        continue;
      edit.drop_initializer(input);
      const Node* const maker = edit.model().graph().producer(input);
      if (maker != nullptr && maker->op_type == "Constant" && !edit.is_removed(maker->field))
        edit.drop_dead_node(*maker);
    }
}

}  // namespace

void replace_integers(onnx::Editor& edit, const OnnxHead& head, const NewHead& new_head,
                      std::span<const std::size_t> retained) {
  IntegerRewriter rewriter(edit, head, retained);
  if (keeps_rows(head.view(), new_head, retained))
    rewriter.keep_rows();
  else
    rewriter.write(new_head);
}

void replace_products(onnx::Editor& edit, const OnnxHead& head, const NewHead& new_head) {
  const Node& node = *head.node;
  const std::string& weights_name = node.inputs[head.weights_input];
  const std::string features = edit.fresh_name(head.features + "_float");
  const std::string weights = edit.fresh_name(weights_name);
  edit.add_initializer(weights, new_head.weights, new_head.weights.shape);
  const bool bias_is_ours = head.integers->scale_product == nullptr || new_head.bias_added;
  std::string bias;
  if (bias_is_ours && new_head.bias) {
    bias = edit.fresh_name(weights_name + "_bias");
    edit.add_initializer(bias, *new_head.bias, new_head.bias->shape);
  }
  // What follows a layer that made 8 bits reads what DequantizeLinear made of them.
  const std::string made = head.logits_in_8_bits ? head.dequantise->outputs[0]
                           : bias_is_ours        ? head.made()
                                                 : head.between.back()->outputs[0];
  std::vector<const Node*> gone{&node};
  gone.insert(gone.end(), head.between.begin(), head.between.end());
  if (bias_is_ours && head.bias_node != nullptr) gone.push_back(head.bias_node);
  if (head.integers->scale_product != nullptr &&
      edit.only_reader(head.integers->scale_product->outputs[0], *head.between.back()))
    gone.push_back(head.integers->scale_product);
  if (head.logits_in_8_bits) gone.push_back(head.dequantise);
  const Node& last = **std::ranges::max_element(gone, {}, [](const Node* n) { return n->field; });

  std::vector<std::string> read{head.features, head.features_in_8_bits->scale};
  if (!head.features_in_8_bits->zero.empty()) read.push_back(head.features_in_8_bits->zero);
  edit.insert_after(last, onnx::node_message("DequantizeLinear", read, {features}, {}, ""));
  std::vector<std::string> inputs{features, weights};
  if (head.kind == OnnxHead::Kind::gemm) {
    if (!bias.empty()) inputs.push_back(bias);
    edit.insert_after(last, onnx::node_message("Gemm", inputs, {made},
                                               {{"alpha", node.float_or("alpha", 1)},
                                                {"transA", node.int_or("transA", 0)},
                                                {"transB", node.int_or("transB", 0)}},
                                               node.name));
  } else if (bias.empty()) {
    edit.insert_after(last, onnx::node_message("MatMul", inputs, {made}, {}, node.name));
  } else {
    const std::string product = edit.fresh_name(made + "_product");
    edit.insert_after(last, onnx::node_message("MatMul", inputs, {product}, {}, node.name));
    edit.insert_after(last, onnx::node_message("Add", {product, bias}, {made}, {}, ""));
  }
  drop_nodes(edit, gone, read);
}

void drop_rounding(onnx::Editor& edit, const OnnxHead& head) {
  if (head.quantise == nullptr) return;  // or the layer made 8 bits, and is gone
  const std::vector<const Node*> gone{head.quantise, head.dequantise};
  edit.insert_after(*head.dequantise, onnx::node_message("Identity", {head.made()},
                                                         {head.dequantise->outputs[0]}, {}, ""));
  drop_nodes(edit, gone, {});
}

}  // namespace oubli
