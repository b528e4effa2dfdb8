#include <algorithm>
#include <cmath>

#include "oubli/model/onnx/classifier.h"
#include "oubli/model/onnx/labels.h"
#include "oubli/model/onnx/tail_walker.h"

namespace oubli {

using onnx::Model;
using onnx::Node;
using Axis = OnnxAxis;
using Shift = LogitShift;

namespace {

constexpr Shift kNoShift{Shift::Effect::added, 0};

// The axes of one number per answer, behind a reduction over the classes.
OnnxAxes without_classes(const Node& node, const OnnxAxes& from, const std::vector<bool>& reduced) {
  OnnxAxes axes;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    if (!reduced[axis])
      axes.push_back(from[axis]);
    else if (node.int_or("keepdims", 1) != 0)
      axes.push_back({Axis::Role::single, 1});
  }
  return axes;
}

}  // namespace

void OnnxTailWalker::dropout(const Node& node, const State& state) {
  if (node.inputs.size() > 2 && !node.inputs[2].empty()) {
    const auto training = onnx::constant_value(model_, node.inputs[2]);
    const bool off = training && std::ranges::all_of(training->tensor.bytes,
                                                     [](std::byte b) { return b == std::byte{0}; });
    if (!off) refuse(node, "drops classes at random (training mode); export for inference");
  }
  if (node.outputs.size() > 1 && !node.outputs[1].empty()) {
    if (readers_.contains(node.outputs[1])) refuse(node, "its mask is used");
  }
  set(node.outputs[0], state);
}

void OnnxTailWalker::softmax(const Node& node, const State& state) {
  const bool one_axis = model_.opset() >= 13;  // before, all axes from this one on together
  const std::size_t axis = axis_in(node.int_or("axis", one_axis ? -1 : 1), state.rank());
  for (std::size_t i = 0; i < state.rank(); ++i) {
    const bool over = one_axis ? i == axis : i >= axis;
    const bool fits = state.axes[i].is(Axis::Role::classes)
                          ? over
                          : state.axes[i].is(Axis::Role::single) || !over;
    if (!fits) refuse(node, "its axis is not the axis of the classes");
  }
  const bool added = state.shift.adds();
  shifted(node, state.bent(node),
          added                                        ? std::optional(kNoShift)
          : state.shift.effect == Shift::Effect::shown ? std::optional(state.shift)
                                                       : std::nullopt);
}

void OnnxTailWalker::pool(const Node& node, State state) {
  const State before = state;
  state.axes = axes_.pool(node, before.axes, head_.kind == OnnxHead::Kind::conv);
  pooled(node, before, state);
}

void OnnxTailWalker::require_straight(const State& state) const {
  if (state.bent_by == nullptr) return;
  refuse(*state.bent_by,
         "a non-linear step stands between the last layer and the pooling or resizing: mixing rows "
         "of the layer would not be mixing logits");
}

void OnnxTailWalker::resize(const Node& node, State state) {
  if (!state.spatial()) refuse(node, "reads the logits in a way this tool cannot follow");
  require_straight(state);
  state.resized = true;
  rearranged(node, state, axes_.resize(node, state.axes, head_.tail.shapes));
}

void OnnxTailWalker::pooled(const Node& node, const State& before, const State& after) {
  const auto positions = [](const State& state) {
    return std::ranges::count(state.axes, Axis::Role::positions, &Axis::role);
  };
  State state = after;
  if (positions(before) == positions(state)) return set(node.outputs[0], state);
  if (before.resized) refuse(node, "averages positions that are mixtures of several");
  require_straight(before);
  state.averaged = true;
  if (!state.spatial()) {
    head_.per_position = false;
    if (!state.scaled && !head_.logits_in_8_bits) {
      head_.logits = node.outputs[0];
      head_.logit_rows.entries = state.axis();
      const auto samples = std::ranges::find(state.axes, Axis::Role::samples, &Axis::role);
      if (samples == state.axes.end())
        head_.logit_rows.samples.reset();
      else if (head_.logit_rows.samples)
        head_.logit_rows.samples = static_cast<std::size_t>(samples - state.axes.begin());
    }
  }
  set(node.outputs[0], state);
}

void OnnxTailWalker::reduce(const Node& node, State state) {
  const std::vector<bool> reduced = axes_.reduced_by(node, state.axes);
  if (std::ranges::find(reduced, true) == reduced.end()) return set(node.outputs[0], state);
  if (reduced[state.axis()]) {
    const bool alone = std::ranges::all_of(state.axes, [&](const Axis& axis) {
      return axis.is(Axis::Role::classes) || axis.is(Axis::Role::single) ||
             !reduced[static_cast<std::size_t>(&axis - state.axes.data())];
    });
    if (!alone && state.spatial()) refuse(node, "reduces over positions and classes together");
    const auto shift = alone || is(node, {"ReduceMax", "ReduceMin", "ReduceMean"}) ||
                               state.shift.effect == Shift::Effect::factor
                           ? after_reduction(node.op_type, state.shift, classes_)
                           : std::nullopt;
    state.kind = State::Kind::reduced;
    state.axes = without_classes(node, state.axes, reduced);
    return shifted(node, state, shift);
  }
  const State before = state;
  state.axes = axes_.reduce(node, before.axes, reduced);
  pooled(node, before, state);
}

void OnnxTailWalker::choose(const Node& node, State state) {
  const std::int64_t default_axis = node.op_type == "ArgMax" ? 0 : -1;
  if (axis_in(node.int_or("axis", default_axis), state.rank()) != state.axis()) {
    refuse(node, "its axis is not the axis of the classes");
  }
  std::vector<bool> reduced(state.rank());
  reduced[state.axis()] = true;
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
  state.axes = without_classes(node, state.axes, reduced);
  set(node.outputs[0], state);
}

void OnnxTailWalker::rearranged(const Node& node, State state, OnnxAxes axes) {
  state.axes = std::move(axes);
  if (state.axis() == state.rank()) refuse(node, "removes the axis of the classes");
  set(node.outputs[0], state);
}

void OnnxTailWalker::flatten(const Node& node, State state) {
  if (state.rank() != 2) state.rank_follows = false;
  rearranged(node, state, axes_.flatten(node, state.axes));
}

void OnnxTailWalker::reshape(const Node& node, State state) {
  state.rank_follows = false;
  OnnxAxes axes = axes_.reshape(node, state.axes, head_.tail.shapes);
  const bool before = state.spatial();
  state.axes = axes;
  if (!before && state.spatial() && !state.averaged) rows_have_positions(node, axes);
  rearranged(node, state, std::move(axes));
}

void OnnxTailWalker::rows_have_positions(const Node& node, const OnnxAxes& axes) {
  const auto samples = static_cast<std::size_t>(
      std::ranges::find(axes, Axis::Role::samples, &Axis::role) - axes.begin());
  const onnx::Shapes::Shape* const shape = shapes_.shape(node.outputs[0]);
  const auto entries = shapes_.entries(node, 1);
  const bool known = (shape != nullptr && samples < shape->size() && (*shape)[samples].batch) ||
                     (entries && samples < entries->size() && (*entries)[samples].extent.batch);
  head_.per_position = true;
  for (OnnxRows* const rows : {&head_.feature_rows, &head_.logit_rows}) {
    rows->with_positions = known;
    if (!known) rows->samples.reset();
  }
}

void OnnxTailWalker::squeeze(const Node& node, State state) {
  if (!onnx::axes_of(model_, node)) state.rank_follows = false;
  rearranged(node, state, axes_.squeeze(node, state.axes));
}

std::optional<double> OnnxTailWalker::single_number(const std::string& value) const {
  const std::optional<TensorView> view = onnx::constant_shape(model_, value);
  if (!view || element_count(view->shape, value) != 1) return std::nullopt;
  const auto constant = onnx::constant_value(model_, value);
  if (!constant) return std::nullopt;
  double number = 0;
  decode(constant->tensor.dtype, constant->tensor.bytes, std::span<double>(&number, 1));
  return number;
}

void OnnxTailWalker::binary(const Node& node, const States& states) {
  if (node.inputs.size() != 2) refuse(node, "wanted two inputs");
  using Kind = State::Kind;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    if (states[side] != nullptr || states[1 - side] == nullptr) continue;
    const std::optional<TensorView> view = onnx::constant_shape(model_, node.inputs[side]);
    if (!view) refuse(node, "combines the logits with another computed value");
    State state = *states[1 - side];
    const std::optional<double> number = single_number(node.inputs[side]);
    const auto shift = after_constant(node.op_type, side == 0, number, state.shift);
    if (!state.has_classes()) {
      if (!number || view->rank() > state.rank()) state.axes.clear();
      if (state.kind != State::Kind::reduced) return set(node.outputs[0], state);
      return shifted(node, state, shift);
    }
    if (!number) {
      refuse(node, "works on the classes one by one after the last layer; fold it into the layer");
    }
    if (view->rank() > state.rank()) {  // raises the rank of the result
      state.axes.insert(state.axes.begin(), view->rank() - state.rank(),
                        Axis{Axis::Role::single, 1});
    }
    return shifted(node, shift ? state : state.bent(node), shift);
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
    if (!goes_with(other, *state))
      refuse(node, "combines the answers of different positions, as far as can be told");
    return shifted(node, state->bent(node), shift);
  }
  if (a.has_classes() || b.has_classes()) {
    refuse(node, "combines the logits with themselves in a way this tool cannot follow");
  }
  State both = a;
  both.repeated = a.repeated || b.repeated;
  const auto same = [](const Axis& one, const Axis& other) {
    return one.role == other.role && one.place == other.place;
  };
  if (!std::ranges::equal(a.axes, b.axes, same)) both.axes.clear();
  if (a.kind == Kind::reduced && b.kind == Kind::reduced) return shifted(node, both, shift);
  set(node.outputs[0], both);
}

void OnnxTailWalker::maximum(const Node& node, const States& states) {
  const State* among = nullptr;
  bool changes = false;
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (states[i] != nullptr) {
      if (among != nullptr) refuse(node, "combines the logits with themselves");
      among = states[i];
      continue;
    }
    const std::optional<double> number = single_number(node.inputs[i]);
    if (!number) refuse(node, "compares the logits with something else than a stored number");
    changes = changes || *number != -HUGE_VAL;
  }
  const State state = *among;
  if (!state.has_classes() && state.kind != State::Kind::reduced)
    refuse(node, "reads an index or a label in a way this tool cannot follow");
  if (!changes) return set(node.outputs[0], state);
  shifted(node, state.bent(node), after_function("Max", state.shift));
}

void OnnxTailWalker::expand(const Node& node, const State& state) {
  if (state.kind != State::Kind::reduced || node.inputs.size() != 2)
    refuse(node, "reads an index or a label in a way this tool cannot follow");
  State expanded = state;
  const auto wanted = shapes_.entries(node, 1);
  if (!wanted || wanted->size() != state.rank()) expanded.axes.clear();
  expanded.repeated = state.repeated || extents_.contains(node.inputs[1]);
  if (const auto extents = onnx::constant_ints(model_, node.inputs[1])) {
    const auto count = static_cast<std::int64_t>(classes_);
    const auto place = std::ranges::find(*extents, count);
    if (place != extents->end() && place + 1 != extents->end())
      refuse(node, "its shape does not show which axis has the classes");
    if (place != extents->end()) {
      head_.tail.shapes.push_back({&node, 1, static_cast<std::size_t>(place - extents->begin())});
      expanded.repeated = true;
    }
  }
  set(node.outputs[0], expanded);
}

void OnnxTailWalker::look_up(const Node& node, const States& states) {
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
  labels.labels =
      std::make_shared<const OnnxLabels>(stored_labels(model_, node.inputs[0], classes_));
  set(node.outputs[0], labels);
}

void OnnxTailWalker::normalize(const Node& node, const State& state) {
  if (state.axis() + 1 != state.rank()) refuse(node, "its axis is not the axis of the classes");
  // A factor falls out of a row divided by its norm.
  shifted(node, state.bent(node),
          state.shift.scales()                         ? std::optional(kNoShift)
          : state.shift.effect == Shift::Effect::shown ? std::optional(state.shift)
                                                       : std::nullopt);
}

void OnnxTailWalker::zip_map(const Node& node, State state) {
  if (state.axis() + 1 != state.rank()) refuse(node, "its axis is not the axis of the classes");
  (void)listed_labels(model_, node, classes_, head_.tail.label_tables);
  // Nobody takes a softmax of a map.
  if (!state.shift.none() && state.shift.effect != Shift::Effect::shown)
    head_.tail.nonlinear.push_back(node.describe());
  state.kind = State::Kind::maps;
  state.axes.clear();
  set(node.outputs[0], state);
}

void OnnxTailWalker::encode_labels(const Node& node, State state) {
  const bool labels = state.kind == State::Kind::labels;
  if (!labels && state.kind != State::Kind::indices)
    refuse(node, "reads a maximum of the logits, wanted a label");
  if (labels && (!state.labels || state.labels->size() != classes_))
    refuse(node, "the labels that it reads were converted before; they cannot be followed");
  state.labels = std::make_shared<const OnnxLabels>(encoded_labels(
      model_, node, labels ? state.labels.get() : nullptr, classes_, head_.tail.label_tables));
  state.kind = State::Kind::labels;
  set(node.outputs[0], state);
}

}  // namespace oubli
