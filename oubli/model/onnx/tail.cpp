#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>

#include "oubli/model/onnx/axes.h"
#include "oubli/model/onnx/head.h"
#include "oubli/model/onnx/labels.h"
#include "oubli/model/onnx/shift.h"
#include "oubli/onnx/shapes.h"

namespace oubli {

namespace {

using onnx::Model;
using onnx::Node;
using Axis = OnnxAxis;
using Shift = LogitShift;

constexpr Shift kNoShift{Shift::Effect::added, 0};

// What is known of a value behind the head.
struct State {
  enum class Kind {
    classes,  // one number per class
    reduced,  // one number per sample: a maximum, a sum
    indices,  // numbers of classes: ArgMax, TopK
    labels    // class labels looked up by number
  };
  Kind kind = Kind::classes;
  Shift shift{};
  OnnxAxes axes;             // of values with classes
  bool scaled = false;       // no longer the logits themselves
  bool rank_follows = true;  // from the rank of the logits, whatever that is
  std::size_t rank() const { return axes.size(); }
  std::size_t axis() const {  // of the classes
    return static_cast<std::size_t>(std::ranges::find(axes, Axis::Role::classes, &Axis::role) -
                                    axes.begin());
  }
  bool spatial() const {
    return std::ranges::find(axes, Axis::Role::positions, &Axis::role) != axes.end();
  }
  bool has_classes() const { return kind == Kind::classes; }
};

class TailWalker {
 public:
  TailWalker(const Model& model, const onnx::Shapes& shapes, OnnxHead& head, std::size_t classes)
      : model_(model),
        shapes_(shapes),
        head_(head),
        classes_(classes),
        readers_(onnx::readers_of(model.graph())),
        axes_(model, shapes, classes,
              [this](const onnx::Shapes::Entry& entry) { return role_of(entry); }) {}
  TailWalker(const TailWalker&) = delete;  // axes_ refers to this object
  TailWalker& operator=(const TailWalker&) = delete;

  void walk() {
    const OnnxLogitAxes found = axes_of_logits(model_, shapes_, head_, classes_);
    rank_assumed_ = found.rank_assumed;
    State logits;
    logits.axes = found.axes;
    if (head_.bias_node != nullptr) {
      State product = logits;
      product.axes.erase(product.axes.begin(),
                         product.axes.begin() + static_cast<std::ptrdiff_t>(found.raised_by_bias));
      // The product without bias, scaled or not, must not be read by anybody else.
      for (const Node* node : {head_.node, head_.scale_node}) {
        if (node == nullptr) continue;
        set(node->outputs[0], product);
        if (readers_.at(node->outputs[0]).count() != 1) {
          refuse(*node, "its product is read before the bias is added, and elsewhere");
        }
      }
    }
    head_.logits_axis = logits.axis();
    set(head_.made(), logits);
    for (const Node& node : model_.graph().nodes) {
      if (&node == head_.node || &node == head_.scale_node || &node == head_.bias_node) continue;
      follow(node);
    }
    check_declared();
    check_label_readers(model_, head_.tail.label_constants);
    for (const onnx::ValueInfo& output : model_.graph().outputs) {
      if (extents_.contains(output.name)) {
        fail(ErrorCode::unfilterable, "{}: output '{}' tells the number of classes", model_.what(),
             output.name);
      }
      const auto state = states_.find(output.name);
      if (state == states_.end()) {
        head_.tail.other_outputs.push_back(output.name);
      } else if (state->second.spatial() && state->second.has_classes()) {
        fail(ErrorCode::unfilterable,
             "{}: output '{}' has one prediction per position (a segmentation network, a "
             "detector?), wanted one per input",
             model_.what(), output.name);
      } else if (state->second.shift.effect == Shift::Effect::factor &&
                 !state->second.shift.none() &&
                 (state->second.has_classes() || state->second.kind == State::Kind::reduced)) {
        head_.tail.nonlinear.push_back(fmt::format("exponential output '{}'", output.name));
      }
    }
  }

 private:
  [[noreturn]] void refuse(const Node& node, std::string_view reason) const {
    refuse_node(model_, node, reason);
  }

  void set(const std::string& value, const State& state) {
    states_[value] = state;
    if (state.has_classes()) head_.tail.values.push_back({value, state.axis()});
  }

  // What the file declares of the values behind the layer must be what the walk has made of them.
  void check_declared() const {
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
          fail(
              ErrorCode::unfilterable,
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

  void follow(const Node& node) {
    std::vector<const State*> states;
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
        (states.empty() || states[0] == nullptr || node.op_type != "Reshape")) {
      return follow_extents(node);
    }
    if (!any) return;
    if (node.domain.empty() && node.op_type == "Shape") return follow_extents(node);
    if (!node.domain.empty() && node.op_type != "ArrayFeatureExtractor") {
      refuse(node, "an operation outside the ONNX standard reads the logits");
    }
    if (node.outputs.empty()) return;
    if (is(node, {"Add", "Sub", "Mul", "Div"})) return binary(node, states);
    if (is(node, {"Gather", "ArrayFeatureExtractor"})) return look_up(node, states);
    if (states[0] == nullptr) refuse(node, "reads the logits in a way this tool cannot follow");
    const State state = *states[0];  // a copy: set() may move the map's entries
    if (state.has_classes()) return classes_through(node, state);
    rest_through(node, state);
  }

  // Numbers read from the shape of a value with classes. The number of samples is no concern of
  // ours; the number of classes may only reach a Reshape.
  void follow_extents(const Node& node) {
    const std::vector<onnx::Shapes::Entry>* entries =
        node.outputs.empty() ? nullptr : shapes_.entries(node.outputs[0]);
    if (entries == nullptr) refuse(node, "computes with the shape of the logits");
    const bool counts_classes =
        std::ranges::any_of(*entries, [&](const onnx::Shapes::Entry& entry) {
          const std::optional<Axis::Role> role = role_of(entry);
          return role && *role != Axis::Role::samples && *role != Axis::Role::single;
        });
    if (counts_classes) extents_.insert(node.outputs[0]);
  }

  // What a number read from a shape counts.
  std::optional<Axis::Role> role_of(const onnx::Shapes::Entry& entry) const {
    const auto found = states_.find(entry.source);
    if (!entry.source.empty() && found != states_.end() && found->second.has_classes() &&
        entry.axis < found->second.rank()) {
      return found->second.axes[entry.axis].role;
    }
    if (entry.extent.batch) return Axis::Role::samples;
    return std::nullopt;
  }

  static bool is(const Node& node, std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, node.op_type) != names.end();
  }

  // To whole numbers or truth values: logits that differ by a common shift are rounded differently.
  static bool rounds(const Node& node) {
    constexpr std::array kFloats{DType::f32, DType::f64, DType::f16, DType::bf16};
    return node.op_type == "Cast" && std::ranges::none_of(kFloats, [&](DType type) {
             return node.int_or("to", 0) == static_cast<std::int64_t>(onnx::data_type_of(type));
           });
  }

  // Values without a class axis: a maximum, an index, a label.
  void rest_through(const Node& node, const State& state) {
    if (state.kind == State::Kind::reduced &&
        is(node, {"Log", "Neg", "Reciprocal", "Sqrt", "Abs", "Exp", "Expand", "Clip", "Max"})) {
      return shifted(node, state, after_function(node.op_type, state.shift));
    }
    if (state.kind == State::Kind::reduced && rounds(node)) {
      return shifted(node, state, after_function("rounding", state.shift));
    }
    if (!is(node,
            {"Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose"})) {
      refuse(node, "reads a maximum, an index or a label in a way this tool cannot follow");
    }
    set(node.outputs[0], state);
  }

  // `state` behind `node`, which does that to a common shift.
  void shifted(const Node& node, State state, const std::optional<Shift>& shift) {
    state.scaled = true;
    if (!shift) head_.tail.nonlinear.push_back(node.describe());
    state.shift = shift.value_or(Shift{Shift::Effect::shown, 0});
    set(node.outputs[0], state);
  }

  void check_pooled(const Node& node, const State& state) const {
    if (state.spatial()) {
      refuse(node,
             "a non-linear step stands between the last layer and the pooling, if there is any (a "
             "detector has one answer per position): mixing rows of the layer would not be mixing "
             "logits");
    }
  }

  void classes_through(const Node& node, const State& state) {
    if (node.op_type == "Dropout") return dropout(node, state);
    if (node.op_type == "Pad" && pads_nothing(model_, node)) {
      return set(node.outputs[0], state);
    }
    if (rounds(node)) {
      check_pooled(node, state);
      return shifted(node, state, after_function("rounding", state.shift));
    }
    if (is(node, {"Identity", "Cast"})) return set(node.outputs[0], state);
    if (is(node, {"Softmax", "LogSoftmax", "Hardmax"})) return softmax(node, state);
    if (is(node, {"Relu", "Sigmoid", "Clip", "HardSigmoid", "LeakyRelu", "Tanh", "Elu", "Softplus",
                  "Log", "Reciprocal", "Sqrt", "Abs", "Exp", "Neg"})) {
      if (node.op_type != "Neg") check_pooled(node, state);
      return shifted(node, state, after_function(node.op_type, state.shift));
    }
    if (is(node, {"GlobalAveragePool", "AveragePool"})) return pool(node, state);
    if (is(node, {"ReduceMax", "ReduceSum", "ReduceLogSumExp", "ReduceMean", "ReduceMin",
                  "ReduceL1", "ReduceL2"})) {
      return reduce(node, state);
    }
    if (is(node, {"ArgMax", "TopK"})) return choose(node, state);
    if (node.op_type == "Flatten") return flatten(node, state);
    if (node.op_type == "Reshape") return reshape(node, state);
    if (is(node, {"Squeeze", "Unsqueeze"})) return squeeze(node, state);
    if (node.op_type == "Transpose") {
      return rearranged(node, state, axes_.transpose(node, state.axes));
    }
    refuse(node, "reads the logits in a way this tool cannot follow");
  }

  void dropout(const Node& node, const State& state) {
    if (node.inputs.size() > 2 && !node.inputs[2].empty()) {
      const auto training = onnx::constant_value(model_, node.inputs[2]);
      const bool off = training && std::ranges::all_of(training->tensor.bytes, [](std::byte b) {
                         return b == std::byte{0};
                       });
      if (!off) refuse(node, "drops classes at random (training mode); export for inference");
    }
    if (node.outputs.size() > 1 && !node.outputs[1].empty()) {
      if (readers_.contains(node.outputs[1])) refuse(node, "its mask is used");
    }
    set(node.outputs[0], state);
  }

  void softmax(const Node& node, State state) {
    const bool one_axis = model_.opset() >= 13;  // before, all axes from this one on together
    const std::size_t axis = axis_in(node.int_or("axis", one_axis ? -1 : 1), state.rank());
    for (std::size_t i = 0; i < state.rank(); ++i) {
      const bool over = one_axis ? i == axis : i >= axis;
      const bool fits = state.axes[i].is(Axis::Role::classes)
                            ? over
                            : state.axes[i].is(Axis::Role::single) || !over;
      if (!fits) refuse(node, "its axis is not the axis of the classes");
    }
    check_pooled(node, state);
    const bool added = state.shift.adds();
    shifted(node, state,
            added                                        ? std::optional(kNoShift)
            : state.shift.effect == Shift::Effect::shown ? std::optional(state.shift)
                                                         : std::nullopt);
  }

  void pool(const Node& node, State state) {
    const State before = state;
    state.axes = axes_.pool(node, before.axes, head_.kind == OnnxHead::Kind::conv);
    pooled(node, before, state);
  }

  // The pooled logits are less to look at than the map, which is averaged where they do not do.
  void pooled(const Node& node, const State& before, const State& state) {
    if (before.spatial() && !state.spatial() && !state.scaled && state.axis() == 1 &&
        state.axes[0].is(Axis::Role::samples)) {
      head_.logits = node.outputs[0];
      head_.logits_axis = 1;
    }
    set(node.outputs[0], state);
  }

  void reduce(const Node& node, State state) {
    const std::vector<bool> reduced = axes_.reduced_by(node, state.axes);
    if (std::ranges::find(reduced, true) == reduced.end()) return set(node.outputs[0], state);
    if (reduced[state.axis()]) {
      if (state.spatial()) refuse(node, "reduces over the classes before pooling");
      const bool alone = std::ranges::all_of(state.axes, [&](const Axis& axis) {
        return axis.is(Axis::Role::classes) || axis.is(Axis::Role::single) ||
               !reduced[static_cast<std::size_t>(&axis - state.axes.data())];
      });
      const auto shift = alone || is(node, {"ReduceMax", "ReduceMin", "ReduceMean"}) ||
                                 state.shift.effect == Shift::Effect::factor
                             ? after_reduction(node.op_type, state.shift, classes_)
                             : std::nullopt;
      state.kind = State::Kind::reduced;
      state.axes.clear();
      return shifted(node, state, shift);
    }
    const State before = state;
    state.axes = axes_.reduce(node, before.axes, reduced);
    pooled(node, before, state);
  }

  void choose(const Node& node, State state) {
    const std::int64_t default_axis = node.op_type == "ArgMax" ? 0 : -1;
    if (axis_in(node.int_or("axis", default_axis), state.rank()) != state.axis()) {
      refuse(node, "its axis is not the axis of the classes");
    }
    if (state.spatial()) refuse(node, "one prediction per position, wanted one per input");
    if (node.op_type == "TopK") {
      std::int64_t k = node.int_or("k", 0);
      if (node.inputs.size() > 1) {
        const auto given = onnx::constant_ints(model_, node.inputs[1]);
        if (!given || given->size() != 1) refuse(node, "its k is computed, wanted a constant");
        k = given->front();
      }
      head_.tail.largest_k =
          std::max(head_.tail.largest_k, static_cast<std::size_t>(std::max<std::int64_t>(k, 0)));
      if (state.shift.effect == Shift::Effect::added && !state.shift.none() &&
          model_.graph().is_output(node.outputs[0])) {
        head_.tail.nonlinear.push_back(node.describe());
      }
      state.kind = State::Kind::reduced;
      state.axes.clear();
      set(node.outputs[0], state);
      if (node.outputs.size() > 1) {
        state.kind = State::Kind::indices;
        set(node.outputs[1], state);
      }
      return;
    }
    state.kind = State::Kind::indices;
    state.axes.clear();
    set(node.outputs[0], state);
  }

  // ---- axes rearranged ----

  void rearranged(const Node& node, State state, OnnxAxes axes) {
    state.axes = std::move(axes);
    if (state.axis() == state.rank()) refuse(node, "removes the axis of the classes");
    set(node.outputs[0], state);
  }

  void flatten(const Node& node, State state) {
    if (state.rank() != 2) state.rank_follows = false;
    rearranged(node, state, axes_.flatten(node, state.axes));
  }

  void reshape(const Node& node, State state) {
    state.rank_follows = false;
    rearranged(node, state, axes_.reshape(node, state.axes, head_.tail.shapes));
  }

  void squeeze(const Node& node, State state) {
    if (!onnx::axes_of(model_, node)) state.rank_follows = false;
    rearranged(node, state, axes_.squeeze(node, state.axes));
  }

  void binary(const Node& node, const std::vector<const State*>& states) {
    if (node.inputs.size() != 2) refuse(node, "wanted two inputs");
    using Kind = State::Kind;
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      if (states[side] != nullptr || states[1 - side] == nullptr) continue;
      const std::optional<TensorView> view = onnx::constant_shape(model_, node.inputs[side]);
      if (!view) refuse(node, "combines the logits with another computed value");
      State state = *states[1 - side];
      std::optional<double> number;
      if (element_count(view->shape, node.inputs[side]) == 1) {
        const auto constant = onnx::constant_value(model_, node.inputs[side]);
        if (!constant) refuse(node, "its numbers cannot be read");
        number.emplace();
        decode(constant->tensor.dtype, constant->tensor.bytes, std::span<double>(&*number, 1));
      }
      const auto shift = after_constant(node.op_type, side == 0, number, state.shift);
      if (!state.has_classes()) {
        if (state.kind != State::Kind::reduced) return set(node.outputs[0], state);
        return shifted(node, state, shift);
      }
      if (!number) {
        refuse(node,
               "works on the classes one by one after the last layer; fold it into the layer");
      }
      if (view->rank() > state.rank()) {  // raises the rank of the result
        state.axes.insert(state.axes.begin(), view->rank() - state.rank(),
                          Axis{Axis::Role::single, 1});
      }
      if (!shift) check_pooled(node, state);
      return shifted(node, state, shift);
    }
    const State& a = *states[0];
    const State& b = *states[1];
    if (a.has_classes() && b.has_classes()) {
      refuse(node, "combines the logits with themselves in a way this tool cannot follow");
    }
    const auto shift = after_pair(node.op_type, a.shift, b.shift);
    for (const State* state : {&a, &b}) {
      const State& other = state == &a ? b : a;
      if (!state->has_classes() || other.kind != Kind::reduced) continue;
      check_pooled(node, *state);
      return shifted(node, *state, shift);
    }
    if (a.has_classes() || b.has_classes()) {
      refuse(node, "combines the logits with themselves in a way this tool cannot follow");
    }
    if (a.kind == Kind::reduced && b.kind == Kind::reduced) return shifted(node, a, shift);
    set(node.outputs[0], a);
  }

  // labels[index]: a constant with one label per class loses the forgotten ones.
  void look_up(const Node& node, const std::vector<const State*>& states) {
    if (node.op_type == "Gather" && states.size() == 2 && states[1] == nullptr &&
        states[0] != nullptr && states[0]->has_classes()) {
      return rearranged(node, *states[0], axes_.pick(node, states[0]->axes));
    }
    if (states.size() != 2 || states[1] == nullptr || states[0] != nullptr ||
        states[1]->kind != State::Kind::indices) {
      refuse(node, "picks single classes out of the logits");
    }
    const State state = *states[1];
    check_labels(model_, node, classes_);
    head_.tail.label_constants.push_back(node.inputs[0]);
    State labels = state;
    labels.kind = State::Kind::labels;
    set(node.outputs[0], labels);
  }

  const Model& model_;
  const onnx::Shapes& shapes_;
  OnnxHead& head_;
  std::size_t classes_;
  std::map<std::string, onnx::Readers, std::less<>> readers_;
  OnnxAxisWalker axes_;
  bool rank_assumed_ = false;  // of the logits, until something declared confirms it
  std::map<std::string, State, std::less<>> states_;
  std::set<std::string, std::less<>> extents_;  // numbers that may be the number of classes
};

}  // namespace

void follow_tail(const Model& model, const onnx::Shapes& shapes, OnnxHead& head,
                 std::size_t classes) {
  TailWalker(model, shapes, head, classes).walk();
}

}  // namespace oubli
