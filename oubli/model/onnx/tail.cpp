#include <algorithm>
#include <array>
#include <span>

#include "oubli/model/onnx/classifier.h"
#include "oubli/model/onnx/fold.h"
#include "oubli/model/onnx/labels.h"
#include "oubli/model/onnx/tail_walker.h"

namespace oubli {

using onnx::Model;
using onnx::Node;
using Axis = OnnxAxis;
using Shift = LogitShift;

namespace {

// The nodes of a layer, in the order in which they run.
std::vector<const Node*> nodes_of(const OnnxHead& head) {
  std::vector<const Node*> layer{head.node, head.scale_node};
  layer.insert(layer.end(), head.between.begin(), head.between.end());
  layer.push_back(head.bias_node);
  std::erase(layer, nullptr);
  return layer;
}

bool casts_to_whole_numbers(const Node& node) {
  constexpr std::array kFloats{DType::f32, DType::f64, DType::f16, DType::bf16};
  return node.op_type == "Cast" && std::ranges::none_of(kFloats, [&](DType type) {
           return node.int_or("to", 0) == static_cast<std::int64_t>(onnx::data_type_of(type));
         });
}

}  // namespace

std::size_t OnnxTailWalker::State::axis() const {
  return static_cast<std::size_t>(std::ranges::find(axes, Axis::Role::classes, &Axis::role) -
                                  axes.begin());
}

bool OnnxTailWalker::State::spatial() const {
  return std::ranges::find(axes, Axis::Role::positions, &Axis::role) != axes.end();
}

OnnxTailWalker::State OnnxTailWalker::State::bent(const Node& node) const {
  State result = *this;
  if (bent_by == nullptr) result.bent_by = &node;
  return result;
}

void OnnxTailWalker::walk() {
  start();
  for (const Node& node : model_.graph().nodes) {
    if (!head_.has(node)) follow(node);
  }
  check_declared();
  check_label_readers(model_, head_.tail.label_constants);
  for (const onnx::ValueInfo& output : model_.graph().outputs) finish_output(output);
}

void OnnxTailWalker::start() {
  if (head_.kind == OnnxHead::Kind::classifier) return start_classifier();
  const OnnxLogitAxes found = axes_of_logits(model_, shapes_, head_, classes_);
  rank_assumed_ = found.rank_assumed;
  State logits;
  logits.axes = found.axes;
  const std::vector<const Node*> layer = nodes_of(head_);
  if (layer.size() > 1) {
    State product = logits;
    product.axes.erase(product.axes.begin(),
                       product.axes.begin() + static_cast<std::ptrdiff_t>(found.raised_by_bias));
    // The product without bias, scaled or not, must not be read by anybody else.
    for (const Node* node : std::span(layer).first(layer.size() - 1)) {
      set(node->outputs[0], product);
      if (readers_.at(node->outputs[0]).count() != 1) {
        refuse(*node, "its product is read before the bias is added, and elsewhere");
      }
    }
  }
  // What the steps that become part of the layer read.
  for (const Node* node : head_.folded) {
    const std::string& value = node->inputs[*folded_input(model_, *node)];
    set(value, logits);
    if (readers_.at(value).count() != 1)
      refuse(*node, "what it scales and shifts is read elsewhere, too");
    if (node->op_type == "BatchNormalization" && logits.axis() != 1)
      refuse(*node, "its channels, axis 1, are not the classes");
  }
  note_rows(found);
  if (head_.logits_in_8_bits && !head_.as_floats)  // rounded on the spot
    return shifted(*layer.back(), logits, after_function("rounding", logits.shift));
  set(head_.made(), logits);
}

void OnnxTailWalker::note_rows(const OnnxLogitAxes& found) {
  const auto place = [&](Axis::Role role) {
    return static_cast<std::size_t>(std::ranges::find(found.axes, role, &Axis::role) -
                                    found.axes.begin());
  };
  const std::size_t raised = found.raised_by_bias;
  head_.logit_rows = {place(Axis::Role::classes), place(Axis::Role::samples)};
  head_.feature_rows = {head_.logit_rows.entries - raised, *head_.logit_rows.samples - raised};
  if (head_.kind == OnnxHead::Kind::gemm && head_.columns) head_.feature_rows = {0, 1};
  if (!found.samples_known) head_.logit_rows.samples = head_.feature_rows.samples = std::nullopt;
  head_.per_position =
      std::ranges::find(found.axes, Axis::Role::positions, &Axis::role) != found.axes.end();
}

// A LinearClassifier gives the label of the largest score, and the scores after a post-transform.
void OnnxTailWalker::start_classifier() {
  const Node& node = *head_.node;
  State scores;
  scores.axes = axes_of_logits(model_, shapes_, head_, classes_).axes;
  State labels = scores;
  labels.kind = State::Kind::labels;
  labels.axes.clear();
  labels.labels = std::make_shared<const OnnxLabels>(
      listed_labels(model_, node, classes_, head_.tail.label_tables));
  set(node.outputs[0], labels);
  if (node.outputs.size() < 2 || node.outputs[1].empty() || !readers_.contains(node.outputs[1]))
    return;
  const std::string transform = post_transform(node);
  if (transform == "NONE") return set(node.outputs[1], scores);
  const bool softmax = transform == "SOFTMAX";
  shifted(node, scores, softmax ? std::optional(Shift{Shift::Effect::added, 0}) : std::nullopt);
}

void OnnxTailWalker::finish_output(const onnx::ValueInfo& output) {
  if (extents_.contains(output.name)) {
    fail(ErrorCode::unfilterable, "{}: output '{}' tells the number of classes", model_.what(),
         output.name);
  }
  const auto found = states_.find(output.name);
  if (found == states_.end()) {
    head_.tail.other_outputs.push_back(output.name);
    return;
  }
  const State& state = found->second;
  if (state.spatial() && state.averaged) {
    fail(ErrorCode::unfilterable,
         "{}: output '{}' is averaged over some of the positions and not over others: what an "
         "answer is cannot be told",
         model_.what(), output.name);
  }
  if (const auto samples = std::ranges::find(state.axes, Axis::Role::samples, &Axis::role);
      samples != state.axes.end())
    head_.tail.samples_axes.emplace(output.name,
                                    static_cast<std::size_t>(samples - state.axes.begin()));
  if (state.shift.none() || (!state.has_classes() && state.kind != State::Kind::reduced))
    head_.tail.decides = true;
  if (state.kind == State::Kind::labels && state.labels && !state.labels->numbers.empty())
    head_.tail.label_outputs.emplace(output.name, state.labels->numbers);
  if (state.shift.none() || (!state.has_classes() && state.kind != State::Kind::reduced)) return;
  if (state.shift.effect == Shift::Effect::factor)
    head_.tail.nonlinear.push_back(fmt::format("exponential output '{}'", output.name));
  // Scores of scikit-learn are looked at as they are, logits of a network through a softmax.
  if (state.shift.effect == Shift::Effect::added && head_.kind == OnnxHead::Kind::classifier)
    head_.tail.nonlinear.push_back(fmt::format("output '{}' of scores", output.name));
}

void OnnxTailWalker::refuse(const Node& node, std::string_view reason) const {
  refuse_node(model_, node, reason);
}

void OnnxTailWalker::set(const std::string& value, const State& state) {
  states_[value] = state;
  if (state.has_classes()) head_.tail.values.push_back({value, state.axis()});
  if (!state.repeated) return;
  if (const onnx::Shapes::Shape* shape = shapes_.shape(value); shape != nullptr && !shape->empty())
    head_.tail.values.push_back({value, shape->size() - 1});
}

void OnnxTailWalker::check_declared() const {
  bool confirmed = !rank_assumed_;
  for (const auto* infos : {&model_.graph().value_infos, &model_.graph().outputs}) {
    for (const onnx::ValueInfo& info : *infos) {
      const auto found = states_.find(info.name);
      if (found == states_.end() || !found->second.has_classes() || !info.shape) continue;
      const State& state = found->second;
      const std::size_t axis = state.axis();
      const bool same_rank = info.shape->size() == state.rank();
      const auto count = static_cast<std::int64_t>(classes_);
      const std::int64_t stated = same_rank ? (*info.shape)[axis].value.value_or(0) : 0;
      if (!same_rank || (stated > 0 && stated != count)) {
        fail(ErrorCode::unfilterable,
             "{}: '{}' is declared with {} axes and should have {}, number {} of {} classes; does "
             "the file pass ONNX shape inference?",
             model_.what(), info.name, info.shape->size(), state.rank(), axis, classes_);
      }
      confirmed = confirmed || state.rank_follows;
    }
  }
  if (!confirmed) {
    refuse(*head_.node,
           "how many axes its result has is not known; store the shapes in the file with ONNX "
           "shape inference");
  }
}

void OnnxTailWalker::follow(const Node& node) {
  States states;
  bool any = false;
  for (const std::string& input : node.inputs) {
    const auto found = states_.find(input);
    states.push_back(found == states_.end() ? nullptr : &found->second);
    any = any || states.back() != nullptr;
  }
  if (std::ranges::any_of(node.outer_names,
                          [&](const std::string& name) { return states_.contains(name); })) {
    refuse(node, "control flow reads the logits");
  }
  if (std::ranges::any_of(node.inputs,
                          [&](const std::string& input) { return extents_.contains(input); }) &&
      (states.empty() || states[0] == nullptr || !is(node, {"Reshape", "Expand", "Resize"}))) {
    return follow_extents(node);
  }
  if (!any) return;
  if (node.domain.empty() && node.op_type == "Shape") return follow_extents(node);
  if (!node.domain.empty() && !is_label_operation(node)) {
    refuse(node, "an operation outside the ONNX standard reads the logits");
  }
  if (node.outputs.empty()) return;
  if (is(node, {"Add", "Sub", "Mul", "Div"})) return binary(node, states);
  if (node.op_type == "Max") return maximum(node, states);
  if (is(node, {"Gather", "ArrayFeatureExtractor"})) return look_up(node, states);
  if (states[0] == nullptr) refuse(node, "reads the logits in a way this tool cannot follow");
  const State state = *states[0];  // a copy: set() may move the map's entries
  if (state.has_classes()) return classes_through(node, state);
  rest_through(node, state);
}

void OnnxTailWalker::follow_extents(const Node& node) {
  const std::vector<onnx::Shapes::Entry>* entries =
      node.outputs.empty() ? nullptr : shapes_.entries(node.outputs[0]);
  if (entries == nullptr) refuse(node, "computes with the shape of the logits");
  const bool counts_classes = std::ranges::any_of(*entries, [&](const onnx::Shapes::Entry& entry) {
    const std::optional<Axis> axis = axis_of(entry);
    return axis && axis->is(Axis::Role::classes);
  });
  if (counts_classes) extents_.insert(node.outputs[0]);
}

std::optional<Axis> OnnxTailWalker::axis_of(const onnx::Shapes::Entry& entry) const {
  const auto found = states_.find(entry.source);
  if (!entry.source.empty() && found != states_.end() && found->second.has_classes() &&
      entry.axis < found->second.rank()) {
    return found->second.axes[entry.axis];
  }
  if (entry.extent.batch) return Axis{Axis::Role::samples, entry.extent.value};
  return std::nullopt;
}

bool OnnxTailWalker::is(const Node& node, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, node.op_type) != names.end();
}

bool OnnxTailWalker::rounds(const Node& node) const {
  if (node.op_type == "QuantizeLinear") return !head_.as_floats || &node != head_.quantise;
  return casts_to_whole_numbers(node);
}

void OnnxTailWalker::check_one_scale(const Node& node) const {
  const auto scale = onnx::constant_shape(model_, node.inputs.at(1));
  if (!scale || element_count(scale->shape, node.inputs[1]) != 1)
    refuse(node, "scales the classes one by one after the last layer");
}

void OnnxTailWalker::rest_through(const Node& node, const State& state) {
  if (state.kind == State::Kind::reduced &&
      is(node, {"Log", "Neg", "Reciprocal", "Sqrt", "Abs", "Exp", "Clip"})) {
    return shifted(node, state, after_function(node.op_type, state.shift));
  }
  if (node.op_type == "Expand") return expand(node, state);
  if (state.kind == State::Kind::reduced && rounds(node)) {
    return shifted(node, state, after_function("rounding", state.shift));
  }
  if (node.op_type == "LabelEncoder") return encode_labels(node, state);
  if (!is(node, {"Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose"}) ||
      state.kind == State::Kind::maps || (state.repeated && !is(node, {"Identity", "Cast"}))) {
    refuse(node, "reads a maximum, an index or a label in a way this tool cannot follow");
  }
  State same = state;
  if (node.op_type == "Transpose" && !state.axes.empty())
    same.axes = axes_.transpose(node, state.axes);
  else if (!is(node, {"Identity", "Cast"}))
    same.axes.clear();
  const bool to_numbers =
      node.int_or("to", 0) == static_cast<std::int64_t>(onnx::data_type_of(DType::i64));
  if (node.op_type == "Cast" && (!to_numbers || !state.labels || state.labels->numbers.empty()))
    same.labels.reset();
  set(node.outputs[0], same);
}

void OnnxTailWalker::shifted(const Node& node, State state, const std::optional<Shift>& shift) {
  state.scaled = true;
  if (!shift) head_.tail.nonlinear.push_back(node.describe());
  state.shift = shift.value_or(Shift{Shift::Effect::shown, 0});
  set(&node == head_.node ? head_.made() : node.outputs[0], state);
}

bool OnnxTailWalker::goes_with(const State& reduced, const State& classes) {
  if (!classes.spatial()) return true;
  return std::ranges::equal(reduced.axes, classes.axes, [](const Axis& one, const Axis& other) {
    return other.is(Axis::Role::classes) ? one.is(Axis::Role::single)
                                         : one.role == other.role && one.place == other.place;
  });
}

void OnnxTailWalker::classes_through(const Node& node, const State& state) {
  if (node.op_type == "Dropout") return dropout(node, state);
  if (node.op_type == "Pad" && pads_nothing(model_, node)) {
    return set(node.outputs[0], state);
  }
  if (is(node, {"QuantizeLinear", "DequantizeLinear"})) check_one_scale(node);
  if (rounds(node)) return shifted(node, state.bent(node), after_function("rounding", state.shift));
  if (is(node, {"Identity", "Cast", "QuantizeLinear", "DequantizeLinear"}))
    return set(node.outputs[0], state);
  if (is(node, {"Softmax", "LogSoftmax", "Hardmax"})) return softmax(node, state);
  if (is(node, {"Relu", "Sigmoid", "Clip", "HardSigmoid", "LeakyRelu", "Tanh", "Elu", "Softplus",
                "Log", "Reciprocal", "Sqrt", "Abs", "Exp", "Neg"})) {
    return shifted(node, node.op_type == "Neg" ? state : state.bent(node),
                   after_function(node.op_type, state.shift));
  }
  if (is(node, {"GlobalAveragePool", "AveragePool"})) return pool(node, state);
  if (is(node, {"Resize", "Upsample"})) return resize(node, state);
  if (is(node, {"ReduceMax", "ReduceSum", "ReduceLogSumExp", "ReduceMean", "ReduceMin", "ReduceL1",
                "ReduceL2"})) {
    return reduce(node, state);
  }
  if (is(node, {"ArgMax", "TopK"})) return choose(node, state);
  if (node.op_type == "Normalizer") return normalize(node, state);
  if (node.op_type == "ZipMap") return zip_map(node, state);
  if (node.op_type == "Flatten") return flatten(node, state);
  if (node.op_type == "Reshape") return reshape(node, state);
  if (is(node, {"Squeeze", "Unsqueeze"})) return squeeze(node, state);
  if (node.op_type == "Transpose") {
    return rearranged(node, state, axes_.transpose(node, state.axes));
  }
  refuse(node, "reads the logits in a way this tool cannot follow");
}

void follow_tail(const Model& model, const onnx::Shapes& shapes, OnnxHead& head,
                 std::size_t classes) {
  OnnxTailWalker(model, shapes, head, classes).walk();
}

}  // namespace oubli
