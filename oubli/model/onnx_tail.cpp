#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "oubli/model/onnx_head.h"
#include "oubli/model/onnx_shapes.h"

namespace oubli {

namespace {

using onnx::Model;
using onnx::Node;

// What an axis of a value behind the head counts.
struct Axis {
  enum class Role { samples, classes, single, positions };
  Role role = Role::single;
  std::optional<std::int64_t> extent{};  // if it is known; always for classes and single
  bool is(Role wanted) const { return role == wanted; }
};

// What a shift c of all logits does to a value: adds `times` c to it, multiplies it by
// exp(`times` c), or something else, which is then noted among the non-linear steps.
struct Shift {
  enum class Effect { added, factor, shown };
  Effect effect = Effect::added;
  double times = 1;
  bool none() const { return effect != Effect::shown && times == 0; }
  bool adds() const { return effect == Effect::added || none(); }
  bool scales() const { return effect == Effect::factor || none(); }
};

constexpr Shift kNoShift{Shift::Effect::added, 0};

// The functions below give nothing if the effect is of neither kind any more.

Shift with_times(Shift shift, double times) {
  shift.times = times;
  return shift;
}

std::optional<Shift> after_function(std::string_view op, Shift shift) {
  if (shift.none() || shift.effect == Shift::Effect::shown) return shift;
  if (op == "Identity" || op == "Cast" || op == "Expand") return shift;
  if (shift.effect == Shift::Effect::added) {
    if (op == "Neg") return with_times(shift, -shift.times);
    if (op == "Exp") return Shift{Shift::Effect::factor, shift.times};
    return std::nullopt;
  }
  if (op == "Log") return Shift{Shift::Effect::added, shift.times};
  if (op == "Reciprocal") return with_times(shift, -shift.times);
  if (op == "Sqrt") return with_times(shift, shift.times / 2);
  if (op == "Neg" || op == "Abs" || op == "Relu" || op == "LeakyRelu") return shift;
  return std::nullopt;
}

// A reduction over `classes` classes and nothing else.
std::optional<Shift> after_reduction(std::string_view op, Shift shift, std::size_t classes) {
  if (shift.none() || shift.effect == Shift::Effect::shown) return shift;
  if (op == "ReduceMax" || op == "ReduceMin" || op == "ReduceMean") return shift;
  if (shift.effect == Shift::Effect::added) {
    if (op == "ReduceSum") return with_times(shift, shift.times * static_cast<double>(classes));
    if (op == "ReduceLogSumExp") return shift;
    return std::nullopt;
  }
  if (op == "ReduceSum" || op == "ReduceL1" || op == "ReduceL2") return shift;
  return std::nullopt;
}

// Add, Sub, Mul, Div with a constant, which is a single number if it is given.
std::optional<Shift> after_constant(std::string_view op, bool constant_first,
                                    std::optional<double> constant, Shift shift) {
  if (shift.none() || shift.effect == Shift::Effect::shown) return shift;
  const double sign = constant_first ? -1 : 1;
  if (shift.effect == Shift::Effect::added) {
    if (op == "Add") return shift;
    if (op == "Sub") return with_times(shift, sign * shift.times);
    if (!constant) return std::nullopt;
    if (op == "Mul") return with_times(shift, shift.times * *constant);
    if (op == "Div" && !constant_first) return with_times(shift, shift.times / *constant);
    return std::nullopt;
  }
  if (op == "Mul") return shift;
  if (op == "Div") return with_times(shift, sign * shift.times);
  return std::nullopt;
}

std::optional<Shift> after_pair(std::string_view op, Shift a, Shift b) {
  if (a.effect == Shift::Effect::shown) return a;
  if (b.effect == Shift::Effect::shown) return b;
  const double sign = op == "Sub" || op == "Div" ? -1 : 1;
  double times = a.times + sign * b.times;
  if (std::abs(times) <= 1e-9 * std::max(std::abs(a.times), std::abs(b.times))) times = 0;
  if (op == "Add" || op == "Sub") {
    if (a.adds() && b.adds()) return Shift{Shift::Effect::added, times};
    if (a.scales() && b.scales() && a.times == b.times) return a;
    return std::nullopt;
  }
  if (a.scales() && b.scales()) return Shift{Shift::Effect::factor, times};
  return std::nullopt;
}

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
  std::vector<Axis> axes;    // of values with classes
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

constexpr std::string_view kPerPosition = "one answer per position, not per sample";

class TailWalker {
 public:
  TailWalker(const Model& model, const OnnxShapes& shapes, OnnxHead& head, std::size_t classes)
      : model_(model), shapes_(shapes), head_(head), classes_(classes) {}

  void walk() {
    const std::string& start =
        (head_.bias_node != nullptr ? head_.bias_node : head_.node)->outputs[0];
    State logits;
    logits.axes = axes_of_logits();
    if (head_.bias_node != nullptr) {
      State product = logits;
      product.axes.erase(product.axes.begin(), product.axes.begin() + raised_by_bias());
      set(head_.node->outputs[0], product);
      // The product without bias must not be read by anybody else.
      const auto readers = onnx::readers_of(model_.graph());
      if (readers.at(head_.node->outputs[0]).count() != 1) {
        refuse(*head_.node, "its product is read before the bias is added, and elsewhere");
      }
    }
    head_.logits_axis = logits.axis();
    set(start, logits);
    for (const Node& node : model_.graph().nodes) {
      if (&node == head_.node || &node == head_.bias_node) continue;
      follow(node);
    }
    check_declared();
    check_label_readers();
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
    fail(ErrorCode::unfilterable, "{}: {}: {}", model_.what(), node.describe(), reason);
  }

  void set(const std::string& value, const State& state) {
    states_[value] = state;
    if (state.has_classes()) head_.tail.values.push_back({value, state.axis()});
  }

  // ---- the logits ----

  // A bias of a higher rank than the product raises it.
  std::ptrdiff_t raised_by_bias() const {
    const OnnxShapes::Shape* product = shapes_.shape(head_.node->outputs[0]);
    const std::size_t rank = product != nullptr ? product->size() : 2;
    return static_cast<std::ptrdiff_t>(std::max(rank, head_.bias_shape.size()) - rank);
  }

  std::vector<Axis> axes_of_logits() {
    const OnnxShapes::Shape* shape = shapes_.shape(head_.node->outputs[0]);
    const auto extent = [&](std::size_t axis) {
      return shape != nullptr && axis < shape->size() ? (*shape)[axis].value : std::nullopt;
    };
    const auto other = [&](std::size_t axis) {
      return extent(axis) == 1 ? Axis{Axis::Role::single, 1}
                               : Axis{Axis::Role::positions, extent(axis)};
    };
    const Axis classes{Axis::Role::classes, static_cast<std::int64_t>(classes_)};
    if (head_.kind != OnnxHead::Kind::matmul) {
      std::vector<Axis> axes{{Axis::Role::samples, extent(0)}, classes};
      for (std::size_t axis = 2; axis < head_.logits_rank; ++axis) axes.push_back(other(axis));
      return axes;
    }
    if (shape == nullptr) {  // to be confirmed by what is declared further on
      rank_assumed_ = true;
    } else if (shape->size() < 2) {
      refuse(*head_.node, "works on a single vector, wanted a batch axis");
    }
    const std::size_t rank = shape != nullptr ? shape->size() : 2;
    const std::size_t class_axis = rank - (head_.columns ? 2 : 1);
    // The samples: the axis known to count them, else the first (the last, if they are columns).
    std::size_t samples = head_.columns ? rank - 1 : 0;
    for (std::size_t axis = 0; shape != nullptr && !head_.columns && axis < rank; ++axis) {
      if (axis != class_axis && (*shape)[axis].batch) samples = axis;
    }
    std::vector<Axis> axes(static_cast<std::size_t>(raised_by_bias()), Axis{Axis::Role::single, 1});
    for (std::size_t axis = 0; axis < rank; ++axis) {
      axes.push_back(axis == class_axis ? classes
                     : axis == samples  ? Axis{Axis::Role::samples, extent(axis)}
                                        : other(axis));
      if (axes.back().is(Axis::Role::positions)) {
        refuse(*head_.node,
               fmt::format("{} (its axis {} is not known to be single)", kPerPosition, axis));
      }
    }
    return axes;
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

  static std::size_t axis_in(std::int64_t axis, std::size_t rank) {
    return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
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
    const std::vector<OnnxShapes::Entry>* entries =
        node.outputs.empty() ? nullptr : shapes_.entries(node.outputs[0]);
    if (entries == nullptr) refuse(node, "computes with the shape of the logits");
    const bool counts_classes = std::ranges::any_of(*entries, [&](const OnnxShapes::Entry& entry) {
      const std::optional<Axis::Role> role = role_of(entry);
      return role && *role != Axis::Role::samples && *role != Axis::Role::single;
    });
    if (counts_classes) extents_.insert(node.outputs[0]);
  }

  // What a number read from a shape counts.
  std::optional<Axis::Role> role_of(const OnnxShapes::Entry& entry) const {
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

  // Values without a class axis: a maximum, an index, a label.
  void rest_through(const Node& node, const State& state) {
    if (state.kind == State::Kind::reduced &&
        is(node, {"Log", "Neg", "Reciprocal", "Sqrt", "Abs", "Exp", "Expand", "Clip", "Max"})) {
      return shifted(node, state, after_function(node.op_type, state.shift));
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
    if (node.op_type == "Transpose") return transpose(node, state);
    refuse(node, "reads the logits in a way this tool cannot follow");
  }

  void dropout(const Node& node, const State& state) {
    if (node.inputs.size() > 2 && !node.inputs[2].empty()) {
      const auto training = onnx::constant_value(model_, node.inputs[2]);
      const bool off =
          training && std::ranges::all_of(training->tensor.view.bytes,
                                          [](std::byte b) { return b == std::byte{0}; });
      if (!off) refuse(node, "drops classes at random (training mode); export for inference");
    }
    if (node.outputs.size() > 1 && !node.outputs[1].empty()) {
      const auto readers = onnx::readers_of(model_.graph());
      if (readers.contains(node.outputs[1])) refuse(node, "its mask is used");
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
    if (head_.kind != OnnxHead::Kind::conv || state.rank() < 3 ||
        !state.axes[0].is(Axis::Role::samples) || !state.axes[1].is(Axis::Role::classes)) {
      refuse(node, "pools what is no map of logits");
    }
    const State before = state;
    for (std::size_t axis = 2; axis < state.rank(); ++axis) {
      if (node.op_type == "AveragePool" && !is_whole(node, state.axes[axis], axis - 2)) {
        refuse(node, "its output is not known to be one value per class");
      }
      state.axes[axis] = {Axis::Role::single, 1};
    }
    pooled(node, before, state);
  }

  // Whether a window spans all of an axis, without padding.
  static bool is_whole(const Node& node, const Axis& axis, std::size_t place) {
    const onnx::Attribute* kernel = node.attribute("kernel_shape");
    const onnx::Attribute* pads = node.attribute("pads");
    const onnx::Attribute* auto_pad = node.attribute("auto_pad");
    return kernel != nullptr && place < kernel->ints.size() && axis.extent &&
           kernel->ints[place] == *axis.extent &&
           (pads == nullptr ||
            std::ranges::all_of(pads->ints, [](auto pad) { return pad == 0; })) &&
           (auto_pad == nullptr || !auto_pad->s.starts_with("SAME"));
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
    const auto axes = onnx::axes_of(model_, node);
    std::vector<bool> reduced(state.rank(), !axes || axes->empty());
    for (const std::int64_t axis : axes.value_or(std::vector<std::int64_t>{})) {
      const std::size_t place = axis_in(axis, state.rank());
      if (place >= state.rank()) refuse(node, "its axes make no sense");
      reduced[place] = true;
    }
    if (axes && axes->empty() && node.int_or("noop_with_empty_axes", 0) != 0) {
      return set(node.outputs[0], state);
    }
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
    const bool keeps = node.int_or("keepdims", 1) != 0;
    state.axes.clear();
    for (std::size_t axis = 0; axis < before.rank(); ++axis) {
      const Axis& old = before.axes[axis];
      if (!reduced[axis]) {
        state.axes.push_back(old);
        continue;
      }
      const bool same = old.is(Axis::Role::single) &&
                        is(node, {"ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum"});
      const bool mean = old.is(Axis::Role::positions) && node.op_type == "ReduceMean";
      if (!same && !mean) {
        refuse(node, "reduces over something else than the classes or all positions");
      }
      if (keeps) state.axes.push_back({Axis::Role::single, 1});
    }
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
          readers_exist(node.outputs[0])) {
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

  bool readers_exist(const std::string& value) const {
    return std::ranges::any_of(model_.graph().outputs,
                               [&](const onnx::ValueInfo& output) { return output.name == value; });
  }

  // ---- axes rearranged ----

  // Several axes as one: number `place` of the result of `node`.
  Axis merge(const Node& node, std::span<const Axis> axes, std::size_t place) const {
    Axis merged{Axis::Role::single, 1};
    bool classes = false;
    bool samples = false;
    bool several_samples = false;
    bool positions = false;
    for (const Axis& axis : axes) {
      if (axis.is(Axis::Role::single)) continue;
      classes = classes || axis.is(Axis::Role::classes);
      samples = samples || axis.is(Axis::Role::samples);
      several_samples = several_samples || (axis.is(Axis::Role::samples) && axis.extent != 1);
      positions = positions || axis.is(Axis::Role::positions);
      const bool fits = merged.extent && axis.extent && *axis.extent > 0 &&
                        *merged.extent <= (std::int64_t{1} << 40) / *axis.extent;
      merged.extent = fits ? std::optional(*merged.extent * *axis.extent) : std::nullopt;
    }
    if ((classes || samples) && positions) {
      refuse(node, fmt::format("mixes the {} with positions: {}", classes ? "classes" : "samples",
                               kPerPosition));
    }
    if (classes && several_samples) {
      // A file made for a single sample, if it says that the classes are all there is.
      const OnnxShapes::Shape* shape = shapes_.shape(node.outputs[0]);
      if (shape == nullptr || place >= shape->size() ||
          (*shape)[place].value != static_cast<std::int64_t>(classes_)) {
        refuse(node, "mixes the classes with the batch");
      }
    }
    if (classes) return {Axis::Role::classes, static_cast<std::int64_t>(classes_)};
    merged.role = samples     ? Axis::Role::samples
                  : positions ? Axis::Role::positions
                              : Axis::Role::single;
    return merged;
  }

  void rearranged(const Node& node, State state, std::vector<Axis> axes) {
    state.axes = std::move(axes);
    if (state.axis() == state.rank()) refuse(node, "removes the axis of the classes");
    set(node.outputs[0], state);
  }

  void flatten(const Node& node, State state) {
    const std::int64_t given = node.int_or("axis", 1);
    const std::size_t axis = axis_in(given, state.rank());
    if (axis > state.rank()) refuse(node, "its axes make no sense");
    const std::span<const Axis> axes(state.axes);
    std::vector<Axis> result{merge(node, axes.first(axis), 0), merge(node, axes.subspan(axis), 1)};
    if (state.rank() != 2) state.rank_follows = false;
    rearranged(node, state, std::move(result));
  }

  void reshape(const Node& node, State state) {
    std::vector<OnnxShapes::Entry> wanted;
    if (const onnx::Attribute* attribute = node.attribute("shape")) {
      for (const std::int64_t number : attribute->ints)
        wanted.push_back({{number, false}, "", 0, &node, 1, wanted.size()});
    } else if (auto entries = shapes_.entries(node, 1)) {
      wanted = std::move(*entries);
    } else {
      refuse(node, "its shape is computed, wanted constants");
    }
    if (wanted.empty()) refuse(node, "its shape is not known");
    std::vector<Axis> axes = Regrouping(*this, node, state.axes, wanted).axes();
    state.rank_follows = false;
    rearranged(node, state, std::move(axes));
  }

  // The axes of a Reshape, from both ends to the -1, which gets what is left.
  class Regrouping {
   public:
    Regrouping(TailWalker& walker, const Node& node, const std::vector<Axis>& from,
               const std::vector<OnnxShapes::Entry>& wanted)
        : walker_(walker), node_(node), from_(from), wanted_(wanted) {
      for (std::size_t i = 0; i < from.size(); ++i) {
        if (!from[i].is(Axis::Role::single)) left_.push_back(i);
      }
    }

    std::vector<Axis> axes() {
      std::vector<Axis> result(wanted_.size());
      std::size_t front = 0;
      for (; front < wanted_.size() && !is_rest(front); ++front) result[front] = take(front, true);
      if (front == wanted_.size()) {
        if (!left_.empty()) unknown();
        return result;
      }
      for (std::size_t back = wanted_.size() - 1; back > front; --back) {
        if (is_rest(back)) unknown();
        result[back] = take(back, false);
      }
      std::vector<Axis> rest;
      for (const std::size_t axis : left_) rest.push_back(from_[axis]);
      result[front] = walker_.merge(node_, rest, front);
      return result;
    }

   private:
    [[noreturn]] void unknown() const {
      walker_.refuse(
          node_, fmt::format("its shape does not show where the {} classes go", walker_.classes_));
    }
    bool is_rest(std::size_t place) const {
      return wanted_[place].source.empty() && wanted_[place].extent.value == -1;
    }
    const Axis* next(bool front) const {
      if (left_.empty()) return nullptr;
      return &from_[front ? left_.front() : left_.back()];
    }
    Axis consume(bool front) {
      const Axis axis = *next(front);
      left_.erase(front ? left_.begin() : left_.end() - 1);
      return axis;
    }

    Axis take(std::size_t place, bool front) {
      const OnnxShapes::Entry& entry = wanted_[place];
      const Axis* candidate = next(front);
      const bool literal = entry.source.empty() && entry.extent.value.has_value();
      if (literal && *entry.extent.value == 0 && node_.int_or("allowzero", 0) == 0) {
        if (place >= from_.size()) unknown();
        if (from_[place].is(Axis::Role::single)) return from_[place];
        if (candidate != &from_[place]) unknown();
        return consume(front);
      }
      if (const std::optional<Axis::Role> role = walker_.role_of(entry)) {
        if (*role == Axis::Role::single) return {Axis::Role::single, 1};
        if (candidate == nullptr || candidate->role != *role || *role == Axis::Role::positions) {
          unknown();
        }
        return consume(front);
      }
      if (!entry.extent.value) unknown();
      const std::int64_t extent = *entry.extent.value;
      if (candidate != nullptr && candidate->is(Axis::Role::samples) &&
          (candidate->extent == extent || (!candidate->extent && extent == 1 && place == 0))) {
        return consume(front);
      }
      if (extent == 1) return {Axis::Role::single, 1};
      if (candidate == nullptr) unknown();
      if (candidate->is(Axis::Role::classes) && candidate->extent == extent &&
          entry.node != nullptr) {
        spelled_out(entry);
        return consume(front);
      }
      std::int64_t product = 1;
      while (product < extent) {
        const Axis* part = next(front);
        if (part == nullptr || !part->is(Axis::Role::positions) || !part->extent ||
            *part->extent < 1 || product > extent / *part->extent) {
          unknown();
        }
        product *= *consume(front).extent;
      }
      if (product != extent) unknown();
      return {Axis::Role::positions, extent};
    }

    // The number of classes, to be changed where it stands, which nothing else may read.
    void spelled_out(const OnnxShapes::Entry& entry) const {
      if (entry.node != &node_) {
        const auto readers = onnx::readers_of(walker_.model_.graph());
        for (const std::string& value : {entry.node->outputs.at(0), node_.inputs.at(1)}) {
          if (readers.at(value).count() != 1) {
            walker_.refuse(node_, "its shape is used elsewhere too");
          }
        }
      }
      walker_.head_.tail.shapes.push_back({entry.node, entry.input, entry.position});
    }

    TailWalker& walker_;
    const Node& node_;
    const std::vector<Axis>& from_;
    const std::vector<OnnxShapes::Entry>& wanted_;
    std::vector<std::size_t> left_;  // axes of from_ that are not single and not placed yet
  };

  void squeeze(const Node& node, State state) {
    const auto axes = onnx::axes_of(model_, node);
    const bool removes = node.op_type == "Squeeze";
    if (!axes && !removes) refuse(node, "does not say which axes it adds");
    std::vector<Axis> result;
    if (!axes) {
      for (const Axis& axis : state.axes) {
        if (axis.is(Axis::Role::positions) && !axis.extent) {
          refuse(node, "does not say which axes it removes");
        }
        if (axis.extent != 1) result.push_back(axis);
      }
      // A file made for a single sample says that its axis goes, too.
      const OnnxShapes::Shape* shape = shapes_.shape(node.outputs[0]);
      if (shape != nullptr && shape->size() + 1 == result.size()) {
        std::erase_if(
            result, [](const Axis& axis) { return axis.is(Axis::Role::samples) && !axis.extent; });
      }
      state.rank_follows = false;
      return rearranged(node, state, std::move(result));
    }
    const std::size_t rank = removes ? state.rank() : state.rank() + axes->size();
    std::vector<bool> named(rank);
    for (const std::int64_t axis : *axes) {
      const std::size_t place = axis_in(axis, rank);
      if (place >= rank || named[place]) refuse(node, "its axes make no sense");
      named[place] = true;
    }
    std::size_t old = 0;
    for (std::size_t place = 0; place < rank; ++place) {
      if (!removes) {
        result.push_back(named[place] ? Axis{Axis::Role::single, 1} : state.axes[old++]);
      } else if (!named[place]) {
        result.push_back(state.axes[place]);
      } else if (state.axes[place].extent.value_or(1) != 1) {
        // An axis of unknown extent is single, or the model does not run.
        refuse(node, state.axes[place].is(Axis::Role::classes)
                         ? "removes the axis of the classes"
                         : "removes an axis that is not single");
      }
    }
    rearranged(node, state, std::move(result));
  }

  void transpose(const Node& node, State state) {
    const onnx::Attribute* perm = node.attribute("perm");
    if (perm == nullptr) {
      std::ranges::reverse(state.axes);
      return set(node.outputs[0], state);
    }
    std::vector<bool> seen(state.rank());
    std::vector<Axis> axes;
    for (const std::int64_t from : perm->ints) {
      const std::size_t place = axis_in(from, state.rank());
      if (place >= state.rank() || seen[place]) refuse(node, "its axes make no sense");
      seen[place] = true;
      axes.push_back(state.axes[place]);
    }
    if (axes.size() != state.rank()) refuse(node, "its axes make no sense");
    rearranged(node, state, std::move(axes));
  }

  // logits[:, :, 0]: the only element of a single axis.
  void pick(const Node& node, State state) {
    const auto index = onnx::constant_value(model_, node.inputs[1]);
    const std::size_t place = axis_in(node.int_or("axis", 0), state.rank());
    if (!index || index->tensor.view.count() != 1 || place >= state.rank()) {
      refuse(node, "picks single classes out of the logits");
    }
    if (state.axes[place].is(Axis::Role::positions)) {
      refuse(node, fmt::format("picks one of several positions: {}", kPerPosition));
    }
    if (!state.axes[place].is(Axis::Role::single)) {
      refuse(node, "picks single classes or samples out of the logits");
    }
    std::vector<Axis> axes(state.axes.begin(),
                           state.axes.begin() + static_cast<std::ptrdiff_t>(place));
    axes.insert(axes.end(), index->tensor.view.rank(), Axis{Axis::Role::single, 1});
    axes.insert(axes.end(), state.axes.begin() + static_cast<std::ptrdiff_t>(place) + 1,
                state.axes.end());
    rearranged(node, state, std::move(axes));
  }

  void binary(const Node& node, const std::vector<const State*>& states) {
    if (node.inputs.size() != 2) refuse(node, "wanted two inputs");
    using Kind = State::Kind;
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      if (states[side] != nullptr || states[1 - side] == nullptr) continue;
      const std::optional<onnx::Constant> constant =
          onnx::constant_value(model_, node.inputs[side]);
      if (!constant) refuse(node, "combines the logits with another computed value");
      State state = *states[1 - side];
      const TensorView& view = constant->tensor.view;
      std::optional<double> number;
      if (view.count() == 1) {
        number.emplace();
        decode(view.dtype, view.bytes, std::span<double>(&*number, 1));
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
      if (view.rank() > state.rank()) {  // raises the rank of the result
        state.axes.insert(state.axes.begin(), view.rank() - state.rank(),
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

  // Labels that can be cut: one per class along the axis of the look-up, stored as they are read.
  void check_labels(const Node& node) const {
    const std::string& value = node.inputs[0];
    const onnx::TensorInfo* initializer = model_.graph().initializer(value);
    const Node* maker = model_.graph().producer(value);
    const onnx::Attribute* stored = maker == nullptr ? nullptr : maker->attribute("value");
    if (initializer == nullptr && (stored == nullptr || maker->op_type != "Constant")) {
      refuse(node, fmt::format("the labels '{}' are computed or listed in an attribute, wanted a "
                               "stored tensor",
                               value));
    }
    const std::vector<std::int64_t> dims =
        initializer != nullptr ? initializer->dims : model_.tensor_info(stored->tensor, value).dims;
    const std::size_t axis =
        axis_in(node.op_type == "Gather" ? node.int_or("axis", 0) : -1, dims.size());
    const auto many = std::ranges::count_if(dims, [](std::int64_t extent) { return extent != 1; });
    if (axis >= dims.size() || dims[axis] != static_cast<std::int64_t>(classes_) || many != 1) {
      refuse(node, fmt::format("the labels '{}' are not one per class", value));
    }
  }

  // A table with the labels of classes is cut, so nothing else may depend on it.
  void check_label_readers() const {
    const auto readers = onnx::readers_of(model_.graph());
    const std::vector<std::string>& tables = head_.tail.label_constants;  // once for each look-up
    for (const std::string& table : tables) {
      const onnx::Readers& all = readers.at(table);
      if (all.graph_output || all.subgraph ||
          std::ranges::count(tables, table) != static_cast<std::ptrdiff_t>(all.nodes.size())) {
        fail(ErrorCode::unfilterable,
             "{}: the labels '{}' are used elsewhere too, where all of them may be needed",
             model_.what(), table);
      }
    }
  }

  // labels[index]: a constant with one label per class loses the forgotten ones.
  void look_up(const Node& node, const std::vector<const State*>& states) {
    if (node.op_type == "Gather" && states.size() == 2 && states[1] == nullptr &&
        states[0] != nullptr && states[0]->has_classes()) {
      return pick(node, *states[0]);
    }
    if (states.size() != 2 || states[1] == nullptr || states[0] != nullptr ||
        states[1]->kind != State::Kind::indices) {
      refuse(node, "picks single classes out of the logits");
    }
    const State state = *states[1];
    check_labels(node);
    head_.tail.label_constants.push_back(node.inputs[0]);
    State labels = state;
    labels.kind = State::Kind::labels;
    set(node.outputs[0], labels);
  }

  const Model& model_;
  const OnnxShapes& shapes_;
  OnnxHead& head_;
  std::size_t classes_;
  bool rank_assumed_ = false;
  std::map<std::string, State, std::less<>> states_;
  std::set<std::string, std::less<>> extents_;  // numbers that may be the number of classes
};

}  // namespace

void follow_tail(const Model& model, const OnnxShapes& shapes, OnnxHead& head,
                 std::size_t classes) {
  TailWalker(model, shapes, head, classes).walk();
}

}  // namespace oubli
