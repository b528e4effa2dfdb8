#include <algorithm>
#include <map>
#include <string>

#include "oubli/model/onnx_head.h"

namespace oubli {

namespace {

using onnx::Model;
using onnx::Node;

// What is known of a value behind the head.
struct State {
  enum class Kind {
    logits,         // one number per class; a common shift of all of them shows
    exponentials,   // exp of logits: a shift is a common factor
    probabilities,  // a common shift of the logits does not show
    reduced,        // one number per sample: a maximum, a sum
    indices,        // numbers of classes: ArgMax, TopK
    labels          // class labels looked up by number
  };
  Kind kind = Kind::logits;
  std::size_t rank = 2;
  std::size_t axis = 1;  // of the classes
  bool spatial = false;  // positions are still there
  bool has_classes() const {
    return kind == Kind::logits || kind == Kind::exponentials || kind == Kind::probabilities;
  }
};

class TailWalker {
 public:
  TailWalker(const Model& model, OnnxHead& head, std::size_t classes)
      : model_(model), head_(head), classes_(classes) {}

  void walk() {
    const std::string& start =
        (head_.bias_node != nullptr ? head_.bias_node : head_.node)->outputs[0];
    State logits{State::Kind::logits, head_.logits_rank, head_.logits_axis, head_.spatial};
    if (head_.bias_node != nullptr) {
      set(head_.node->outputs[0], logits);
      // The product without bias must not be read by anybody else.
      const auto readers = onnx::readers_of(model_.graph());
      if (readers.at(head_.node->outputs[0]).count() != 1) {
        refuse(*head_.node, "its product is read before the bias is added, and elsewhere");
      }
    }
    if (logits.spatial && is_one_by_one(start)) logits.spatial = false;
    set(start, logits);
    for (const Node& node : model_.graph().nodes) {
      if (&node == head_.node || &node == head_.bias_node) continue;
      follow(node);
    }
    for (const onnx::ValueInfo& output : model_.graph().outputs) {
      const auto state = states_.find(output.name);
      if (state == states_.end()) {
        head_.tail.other_outputs.push_back(output.name);
      } else if (state->second.spatial && state->second.has_classes()) {
        fail(ErrorCode::unfilterable,
             "{}: output '{}' has one prediction per position (a segmentation network?), wanted "
             "one per "
             "input",
             model_.what(), output.name);
      } else if (state->second.kind == State::Kind::exponentials) {
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
    if (state.has_classes()) head_.tail.values.push_back({value, state.axis});
  }

  bool is_one_by_one(const std::string& value) const {
    for (const auto* infos : {&model_.graph().value_infos, &model_.graph().outputs}) {
      for (const onnx::ValueInfo& info : *infos) {
        if (info.name != value || !info.shape || info.shape->size() < 3) continue;
        return std::all_of(info.shape->begin() + 2, info.shape->end(),
                           [](const onnx::Dimension& dim) { return dim.value == 1; });
      }
    }
    return false;
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
    if (!any) return;
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

  static bool is(const Node& node, std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, node.op_type) != names.end();
  }

  // Values without a class axis: a maximum, an index, a label.
  void rest_through(const Node& node, const State& state) {
    if (state.kind == State::Kind::reduced &&
        is(node, {"Log", "Neg", "Reciprocal", "Sqrt", "Abs", "Exp", "Expand", "Clip", "Max"})) {
      return set(node.outputs[0], state);
    }
    if (!is(node,
            {"Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose"})) {
      refuse(node, "reads a maximum, an index or a label in a way this tool cannot follow");
    }
    set(node.outputs[0], state);
  }

  void nonlinear(const Node& node, State state) {
    if (state.spatial) {
      refuse(node,
             "a non-linear step stands between the last layer and the pooling: mixing rows of the "
             "layer "
             "would not be mixing logits");
    }
    if (state.kind == State::Kind::logits) {
      head_.tail.nonlinear.push_back(node.describe());
    }
    set(node.outputs[0], state);
  }

  void classes_through(const Node& node, State state) {
    const auto keep = [&] { set(node.outputs[0], state); };
    if (is(node, {"Identity", "Cast", "Dropout", "Neg"})) return keep();
    if (is(node, {"Softmax", "LogSoftmax", "Hardmax"})) return softmax(node, state);
    if (is(node, {"Relu", "Sigmoid", "Clip", "HardSigmoid", "LeakyRelu", "Tanh", "Elu", "Softplus",
                  "Log", "Reciprocal", "Sqrt", "Abs"})) {
      return nonlinear(node, state);
    }
    if (node.op_type == "Exp") {
      if (state.spatial) return nonlinear(node, state);
      if (state.kind == State::Kind::logits) state.kind = State::Kind::exponentials;
      return keep();
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

  void softmax(const Node& node, State state) {
    const std::size_t axis =
        axis_in(node.int_or("axis", model_.opset() >= 13 ? -1 : 1), state.rank);
    if (axis != state.axis) refuse(node, "its axis is not the axis of the classes");
    if (state.spatial) return nonlinear(node, state);
    state.kind = State::Kind::probabilities;
    set(node.outputs[0], state);
  }

  void pool(const Node& node, State state) {
    if (head_.kind != OnnxHead::Kind::conv || state.kind != State::Kind::logits) {
      refuse(node, "pools what is no map of logits");
    }
    if (node.op_type == "AveragePool" && !is_one_by_one(node.outputs[0])) {
      refuse(node, "its output is not known to be one value per class");
    }
    pooled(node, state);
  }

  void pooled(const Node& node, State state) {
    if (state.spatial) head_.logits = node.outputs[0];
    state.spatial = false;
    set(node.outputs[0], state);
  }

  void reduce(const Node& node, State state) {
    const auto axes = onnx::axes_of(model_, node);
    std::vector<std::size_t> reduced;
    if (axes) {
      for (const std::int64_t axis : *axes) reduced.push_back(axis_in(axis, state.rank));
    } else {
      for (std::size_t axis = 0; axis < state.rank; ++axis) reduced.push_back(axis);
    }
    const bool keeps = node.int_or("keepdims", 1) != 0;
    if (std::ranges::find(reduced, state.axis) != reduced.end()) {
      if (state.spatial) refuse(node, "reduces over the classes before pooling");
      state.kind = State::Kind::reduced;
      return set(node.outputs[0], state);
    }
    const bool over_positions =
        std::ranges::all_of(reduced, [](std::size_t axis) { return axis >= 2; });
    if (node.op_type != "ReduceMean" || !over_positions || reduced.size() + 2 != state.rank ||
        state.kind != State::Kind::logits) {
      refuse(node, "reduces over something else than the classes or all positions");
    }
    if (!keeps) state.rank = 2;
    pooled(node, state);
  }

  void choose(const Node& node, State state) {
    const std::int64_t default_axis = node.op_type == "ArgMax" ? 0 : -1;
    if (axis_in(node.int_or("axis", default_axis), state.rank) != state.axis) {
      refuse(node, "its axis is not the axis of the classes");
    }
    if (state.spatial) refuse(node, "one prediction per position, wanted one per input");
    if (node.op_type == "TopK") {
      std::int64_t k = node.int_or("k", 0);
      if (node.inputs.size() > 1) {
        const auto given = onnx::constant_ints(model_, node.inputs[1]);
        if (!given || given->size() != 1) refuse(node, "its k is computed, wanted a constant");
        k = given->front();
      }
      head_.tail.largest_k =
          std::max(head_.tail.largest_k, static_cast<std::size_t>(std::max<std::int64_t>(k, 0)));
      if (state.kind == State::Kind::logits && readers_exist(node.outputs[0])) {
        head_.tail.nonlinear.push_back(node.describe());
      }
      state.kind = State::Kind::reduced;
      set(node.outputs[0], state);
      if (node.outputs.size() > 1) {
        state.kind = State::Kind::indices;
        set(node.outputs[1], state);
      }
      return;
    }
    state.kind = State::Kind::indices;
    set(node.outputs[0], state);
  }

  bool readers_exist(const std::string& value) const {
    return std::ranges::any_of(model_.graph().outputs,
                               [&](const onnx::ValueInfo& output) { return output.name == value; });
  }

  void flatten(const Node& node, State state) {
    std::size_t axis = axis_in(node.int_or("axis", 1), state.rank);
    if (state.rank == 2 && axis == 1) return set(node.outputs[0], state);
    if (axis > state.axis || state.axis > 1) refuse(node, "mixes the classes with another axis");
    state.axis = axis == 0 ? 1 : state.axis;
    if (axis == 0) refuse(node, "mixes the classes with the batch");
    state.rank = 2;
    state.spatial = false;  // the count is compared when the model runs
    set(node.outputs[0], state);
  }

  void reshape(const Node& node, State state) {
    std::optional<std::vector<std::int64_t>> shape;
    if (const onnx::Attribute* attribute = node.attribute("shape")) {
      shape = attribute->ints;
    } else if (node.inputs.size() > 1) {
      shape = onnx::constant_ints(model_, node.inputs[1]);
      if (!shape) return reshape_by_declared(node, state);
    }
    if (!shape || shape->empty()) refuse(node, "its shape is not known");
    const auto count = std::ranges::count(*shape, static_cast<std::int64_t>(classes_));
    const auto rest = std::ranges::count_if(*shape, [](std::int64_t n) { return n > 1; });
    if (count == 1) {
      state.axis = static_cast<std::size_t>(
          std::ranges::find(*shape, static_cast<std::int64_t>(classes_)) - shape->begin());
      head_.tail.shapes.push_back({&node, state.axis});
    } else if (count == 0 && rest == 0 && std::ranges::count(*shape, -1) == 1) {
      state.axis = static_cast<std::size_t>(std::ranges::find(*shape, -1) - shape->begin());
      if (state.axis == 0 && shape->size() > 1) refuse(node, "mixes the classes with the batch");
    } else if (count == 0 && state.axis < shape->size() && (*shape)[state.axis] == 0) {
      // 0 copies the class axis
    } else {
      refuse(node, fmt::format("its shape does not show where the {} classes go", classes_));
    }
    state.rank = shape->size();
    state.spatial = false;
    set(node.outputs[0], state);
  }

  // A shape computed from the batch size: the declared shape of the result must show the classes.
  void reshape_by_declared(const Node& node, State state) {
    for (const auto* infos : {&model_.graph().value_infos, &model_.graph().outputs}) {
      for (const onnx::ValueInfo& info : *infos) {
        if (info.name != node.outputs[0] || !info.shape) continue;
        std::vector<std::size_t> places;
        for (std::size_t i = 0; i < info.shape->size(); ++i) {
          if ((*info.shape)[i].value == static_cast<std::int64_t>(classes_)) places.push_back(i);
        }
        const Node* maker = model_.graph().producer(node.inputs[1]);
        const bool ends_in_inferred =
            maker != nullptr && maker->op_type == "Concat" && !maker->inputs.empty() &&
            onnx::constant_ints(model_, maker->inputs.back()) == std::vector<std::int64_t>{-1};
        if (places.size() == 1 && ends_in_inferred) {
          state.axis = places.front();
          state.rank = info.shape->size();
          state.spatial = false;
          return set(node.outputs[0], state);
        }
      }
    }
    refuse(node, "its shape is computed, wanted constants");
  }

  void squeeze(const Node& node, State state) {
    const auto axes = onnx::axes_of(model_, node);
    if (!axes) refuse(node, "does not say which axes it removes");
    const bool removes = node.op_type == "Squeeze";
    const std::size_t rank = removes ? state.rank : state.rank + axes->size();
    std::vector<bool> named(rank);
    for (const std::int64_t axis : *axes) {
      const std::size_t place = axis_in(axis, rank);
      if (place >= rank || named[place]) refuse(node, "its axes make no sense");
      named[place] = true;
    }
    if (removes) {
      if (named[state.axis]) refuse(node, "removes the axis of the classes");
      state.axis -= static_cast<std::size_t>(
          std::count(named.begin(), named.begin() + static_cast<std::ptrdiff_t>(state.axis), true));
      state.rank -= axes->size();
      if (state.rank <= 2) state.spatial = false;
    } else {
      std::size_t old = 0;
      for (std::size_t place = 0; place < rank; ++place) {
        if (named[place]) continue;
        if (old++ == state.axis) {
          state.axis = place;
          break;
        }
      }
      state.rank = rank;
    }
    set(node.outputs[0], state);
  }

  void transpose(const Node& node, State state) {
    const onnx::Attribute* perm = node.attribute("perm");
    if (perm == nullptr) {
      state.axis = state.rank - 1 - state.axis;
    } else {
      const auto place = std::ranges::find(perm->ints, static_cast<std::int64_t>(state.axis));
      if (perm->ints.size() != state.rank || place == perm->ints.end())
        refuse(node, "its axes make no sense");
      state.axis = static_cast<std::size_t>(place - perm->ints.begin());
    }
    set(node.outputs[0], state);
  }

  void binary(const Node& node, const std::vector<const State*>& states) {
    if (node.inputs.size() != 2) refuse(node, "wanted two inputs");
    using Kind = State::Kind;
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      if (states[side] != nullptr || states[1 - side] == nullptr) continue;
      const std::optional<onnx::Constant> constant =
          onnx::constant_value(model_, node.inputs[side]);
      if (!constant) refuse(node, "combines the logits with another computed value");
      const State state = *states[1 - side];
      if (!state.has_classes()) return set(node.outputs[0], state);
      if (constant->tensor.view.count() != 1) {
        refuse(node,
               "works on the classes one by one after the last layer; fold it into the layer");
      }
      if (node.op_type == "Div" && side == 0) return nonlinear(node, state);  // constant / logits
      return set(node.outputs[0], state);
    }
    State a = *states[0];
    const State b = *states[1];
    if (!a.has_classes() && !b.has_classes()) return set(node.outputs[0], a);
    if (a.has_classes() && b.kind == Kind::reduced) {
      if (a.kind == Kind::exponentials && (node.op_type == "Div" || node.op_type == "Mul")) {
        a.kind = Kind::probabilities;
      } else if (a.kind == Kind::logits && node.op_type != "Sub") {
        return nonlinear(node, a);
      }
      return set(node.outputs[0], a);
    }
    if (b.has_classes() && a.kind == Kind::reduced) return nonlinear(node, b);
    refuse(node, "combines the logits with themselves in a way this tool cannot follow");
  }

  // labels[index]: a constant with one label per class loses the forgotten ones.
  void look_up(const Node& node, const std::vector<const State*>& states) {
    if (states.size() != 2 || states[1] == nullptr || states[0] != nullptr ||
        states[1]->kind != State::Kind::indices) {
      refuse(node, "picks single classes out of the logits");
    }
    const State state = *states[1];
    head_.tail.label_constants.push_back(node.inputs[0]);
    State labels = state;
    labels.kind = State::Kind::labels;
    set(node.outputs[0], labels);
  }

  const Model& model_;
  OnnxHead& head_;
  std::size_t classes_;
  std::map<std::string, State, std::less<>> states_;
};

}  // namespace

void follow_tail(const Model& model, OnnxHead& head, std::size_t classes) {
  TailWalker(model, head, classes).walk();
}

}  // namespace oubli
