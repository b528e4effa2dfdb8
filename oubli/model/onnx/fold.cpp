#include "oubli/model/onnx/fold.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "oubli/model/onnx/layer.h"

namespace oubli {

namespace {

using onnx::Model;
using onnx::Node;

constexpr std::size_t kMostSteps = 8;

bool is_normalization(const Node& node) {
  return node.domain.empty() && node.op_type == "BatchNormalization";
}

bool is_arithmetic(const Node& node) {
  return node.domain.empty() && is_any_of(node.op_type, {"Add", "Sub", "Mul", "Div"}) &&
         node.inputs.size() == 2 && node.outputs.size() == 1;
}

// One fixed scale and shift for every channel.
bool is_fixed(const Model& model, const Node& node) {
  if (node.inputs.size() != 5 || node.outputs.empty() || node.int_or("training_mode", 0) != 0 ||
      node.int_or("spatial", 1) != 1 || (model.opset() < 7 && node.int_or("is_test", 0) == 0) ||
      std::any_of(node.outputs.begin() + 1, node.outputs.end(),
                  [](const std::string& output) { return !output.empty(); }))
    return false;
  return std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](const std::string& input) {
    const std::optional<TensorView> shape = onnx::constant_shape(model, input);
    return shape && is_float(shape->dtype) && shape->rank() == 1;
  });
}

std::size_t count_of(const Model& model, const std::string& value) {
  const std::optional<TensorView> shape = onnx::constant_shape(model, value);
  return shape ? element_count(shape->shape, value) : 0;
}

// Whether a stored number, or one for each class along their axis, goes with the logits.
bool fits(const OnnxHead& head, std::size_t classes, const TensorView& constant) {
  const bool map = head.kind == OnnxHead::Kind::conv;
  const bool columns = head.kind == OnnxHead::Kind::matmul && head.columns;
  const std::size_t rank = map ? head.logits_rank : 2;
  const std::size_t from_end = map ? rank - 1 : columns ? 2 : 1;
  const std::vector<std::size_t>& shape = constant.shape;
  if (shape.size() > rank) return false;
  const std::size_t count = element_count(shape, constant.what);
  if (count == 1) return true;
  return count == classes && shape.size() >= from_end && shape[shape.size() - from_end] == classes;
}

bool step_fits(const Model& model, const Node& node, const OnnxHead& head, std::size_t classes) {
  if (!is_normalization(node)) {
    const std::string& constant = node.inputs[1 - *folded_input(model, node)];
    return fits(head, classes, *onnx::constant_shape(model, constant));
  }
  // Its channels are axis 1.
  return !(head.kind == OnnxHead::Kind::matmul && head.columns) &&
         std::all_of(node.inputs.begin() + 1, node.inputs.end(),
                     [&](const std::string& input) { return count_of(model, input) == classes; });
}

// z becomes scale z + shift, for every class.
struct Affine {
  std::vector<double> scale, shift;
};

std::vector<double> numbers_for(const Model& model, const Node& node, const std::string& value,
                                std::size_t classes) {
  const std::optional<onnx::Constant> constant = onnx::constant_value(model, value);
  if (!constant) refuse_node(model, node, "its numbers cannot be read");
  std::vector<double> numbers(constant->tensor.count());
  decode(constant->tensor.dtype, constant->tensor.bytes, std::span<double>(numbers));
  if (numbers.size() == 1) numbers.assign(classes, numbers.front());
  return numbers;
}

Affine affine_of(const Model& model, const Node& node, std::size_t classes) {
  const auto numbers = [&](std::size_t input) {
    return numbers_for(model, node, node.inputs[input], classes);
  };
  Affine step{std::vector<double>(classes, 1), std::vector<double>(classes, 0)};
  if (is_normalization(node)) {
    const auto scale = numbers(1), shift = numbers(2), mean = numbers(3), variance = numbers(4);
    const auto epsilon = static_cast<double>(node.float_or("epsilon", 1e-5F));
    for (std::size_t j = 0; j < classes; ++j) {
      step.scale[j] = scale[j] / std::sqrt(variance[j] + epsilon);
      step.shift[j] = shift[j] - step.scale[j] * mean[j];
    }
    return step;
  }
  const std::size_t logits = *folded_input(model, node);
  const std::vector<double> constant = numbers(1 - logits);
  for (std::size_t j = 0; j < classes; ++j) {
    if (node.op_type == "Mul") step.scale[j] = constant[j];
    if (node.op_type == "Div") step.scale[j] = 1 / constant[j];
    if (node.op_type == "Add") step.shift[j] = constant[j];
    if (node.op_type == "Sub") step.shift[j] = logits == 0 ? -constant[j] : constant[j];
    if (node.op_type == "Sub" && logits == 1) step.scale[j] = -1;
  }
  return step;
}

}  // namespace

std::optional<std::size_t> folded_input(const Model& model, const Node& node) {
  if (is_normalization(node))
    return is_fixed(model, node) ? std::optional<std::size_t>(0) : std::nullopt;
  if (!is_arithmetic(node)) return std::nullopt;
  const auto stored = [&](std::size_t input) {
    const std::optional<TensorView> shape = onnx::constant_shape(model, node.inputs[input]);
    return shape && is_float(shape->dtype);
  };
  if (stored(1) && !stored(0)) return 0;
  if (stored(0) && !stored(1) && node.op_type != "Div") return 1;
  return std::nullopt;
}

std::optional<OnnxHead> folded_layer_at(
    const Model& model, const Node& node,
    const std::function<std::optional<OnnxHead>(const Node&)>& layer_at) {
  std::vector<const Node*> steps;
  const Node* step = &node;
  std::optional<OnnxHead> head;
  while (!head) {
    const std::optional<std::size_t> input = folded_input(model, *step);
    if (!input || steps.size() == kMostSteps) return std::nullopt;
    if (steps.empty() && !is_normalization(node) && count_of(model, node.inputs[1 - *input]) == 1)
      return std::nullopt;  // the same for all classes: it may stay where it is
    steps.push_back(step);
    step = model.graph().producer(step->inputs[*input]);
    if (step == nullptr) return std::nullopt;
    head = layer_at(*step);
  }
  if (head->kind == OnnxHead::Kind::classifier) return std::nullopt;
  const TensorView& weights = head->weights.tensor;
  if (weights.rank() < 2) return std::nullopt;
  const std::size_t classes = head->view().classes();
  if (!std::ranges::all_of(steps,
                           [&](const Node* s) { return step_fits(model, *s, *head, classes); }))
    return std::nullopt;
  head->folded.assign(steps.rbegin(), steps.rend());
  head->logits = node.outputs[0];
  return head;
}

void fold_steps(const Model& model, OnnxHead& head) {
  if (head.folded.empty()) return;
  const HeadView view = head.view();
  const std::size_t classes = view.classes(), features = view.features();
  Affine all{std::vector<double>(classes, 1), std::vector<double>(classes, 0)};
  for (const Node* node : head.folded) {
    const Affine step = affine_of(model, *node, classes);
    for (std::size_t j = 0; j < classes; ++j) {
      if (step.scale[j] == 0) refuse_node(model, *node, "it makes every logit of a class the same");
      all.scale[j] *= step.scale[j];
      all.shift[j] = step.scale[j] * all.shift[j] + step.shift[j];
      if (!std::isfinite(all.scale[j]) || !std::isfinite(all.shift[j]))
        refuse_node(model, *node, "its scale and shift are not finite numbers");
    }
  }
  std::vector<double> weights(classes * features);
  decode(view.weights.dtype, view.weights.bytes, std::span<double>(weights));
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] *= all.scale[view.transposed ? i % classes : i / features];
  Tensor folded = to_tensor(weights, view.weights.dtype);
  folded.shape = view.weights.shape;
  std::vector<double> bias(classes, 0);
  if (view.bias) decode(view.bias->dtype, view.bias->bytes, std::span<double>(bias));
  for (std::size_t j = 0; j < classes; ++j)
    bias[j] = all.scale[j] * bias[j] + all.shift[j] / view.bias_scale;
  const bool shifts = std::ranges::any_of(all.shift, [](double shift) { return shift != 0; });
  const std::string what = head.node->describe() + " with the steps behind it";
  if (view.bias || shifts) head.folded_bias = share(to_tensor(bias, view.weights.dtype), what);
  head.folded_weights = share(std::move(folded), what);
}

}  // namespace oubli
