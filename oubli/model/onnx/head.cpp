#include "oubli/model/onnx/head.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "oubli/model/onnx/choose.h"
#include "oubli/model/onnx/fold.h"
#include "oubli/model/onnx/layer.h"
#include "oubli/onnx/shapes.h"

namespace oubli {

namespace {

using onnx::Constant;
using onnx::Model;
using onnx::Node;

constexpr std::size_t kLongestTail = 256;

bool is_float_constant(const std::optional<TensorView>& constant) {
  return constant && is_float(constant->dtype);
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

// What an output is followed back to: a layer, or the reason why there is none.
struct Layer {
  std::optional<OnnxHead> head;
  std::optional<Error> refusal;
};

// Finds the layers of outputs. Many outputs may come by the same way, which is walked once.
class LayerFinder {
 public:
  explicit LayerFinder(const Model& model) : model_(model) {}

  const Layer& find(const std::string& output) {
    std::vector<std::string> way;
    std::string value = output;
    std::shared_ptr<const Layer> layer;
    while (!layer) {
      const auto known = known_.find(value);
      if (known != known_.end()) {
        layer = known->second;
        break;
      }
      way.push_back(value);
      try {
        layer = step(output, value, way.size());
      } catch (const Error& error) {
        if (error.code() != ErrorCode::unfilterable) throw;
        layer = std::make_shared<const Layer>(Layer{std::nullopt, error});
      }
    }
    for (std::string& passed : way) known_.emplace(std::move(passed), layer);
    return *known_.at(output);
  }

 private:
  // The layer that makes `value`; else nothing, and `value` is what comes before.
  std::shared_ptr<const Layer> step(const std::string& output, std::string& value,
                                    std::size_t steps) const {
    const Node* const node = model_.graph().producer(value);
    if (node == nullptr)
      fail(ErrorCode::unfilterable, "{}: output '{}' is made by no linear layer", model_.what(),
           output);
    if (std::optional<OnnxHead> head = layer_at(model_, *node))
      return std::make_shared<const Layer>(Layer{std::move(head), std::nullopt});
    const std::optional<std::string> before = step_back(model_, *node);
    if (!before)
      refuse_layer(model_, *node,
                   "is none of the operations that can follow the last layer of a classifier");
    if (steps >= kLongestTail)
      fail(ErrorCode::unfilterable, "{}: no linear layer within {} steps of output '{}'",
           model_.what(), kLongestTail, output);
    value = *before;
    return nullptr;
  }

  const Model& model_;
  std::unordered_map<std::string, std::shared_ptr<const Layer>> known_;
};

// The nodes that any of `values` is computed from, and for each one of the values that it is for.
std::unordered_map<const Node*, std::string_view> makers_of(
    const Model& model, const std::vector<std::string>& values) {
  std::unordered_map<std::string_view, std::string_view> needed;
  for (const std::string& value : values) needed.emplace(value, value);
  std::unordered_map<const Node*, std::string_view> makers;
  // Nodes are in the order they run: one pass from the end meets every reader before its source.
  const std::vector<Node>& nodes = model.graph().nodes;
  for (auto maker = nodes.rbegin(); maker != nodes.rend(); ++maker) {
    const auto output = std::ranges::find_if(
        maker->outputs, [&](const std::string& name) { return needed.contains(name); });
    if (output == maker->outputs.end()) continue;
    const std::string_view target = needed.at(*output);
    makers.emplace(&*maker, target);
    for (const auto* const names : {&maker->inputs, &maker->outer_names})
      for (const std::string& name : *names) needed.emplace(name, target);
  }
  return makers;
}

// Whether each of `values` is computed from what `node` makes.
std::vector<bool> depend_on(const Model& model, const Node& node,
                            const std::vector<std::string>& values) {
  std::unordered_set<std::string_view> behind(node.outputs.begin(), node.outputs.end());
  const auto is_behind = [&](const std::string& name) { return behind.contains(name); };
  for (const Node& reader : model.graph().nodes)
    if (std::ranges::any_of(reader.inputs, is_behind) ||
        std::ranges::any_of(reader.outer_names, is_behind))
      behind.insert(reader.outputs.begin(), reader.outputs.end());
  std::vector<bool> result;
  for (const std::string& value : values) result.push_back(is_behind(value));
  return result;
}

// Outputs that cannot be followed back to a layer and are the end of another head all the same:
// made by weights that the head itself does not depend on.
std::vector<std::string> ends_of_other_heads(const Model& model, const OnnxHead& head,
                                             const std::vector<std::string>& refused) {
  const std::vector<bool> behind = depend_on(model, *head.node, refused);
  std::vector<std::string> others;  // the walk forward judges those that come from the head
  for (std::size_t i = 0; i < refused.size(); ++i)
    if (!behind[i]) others.push_back(refused[i]);
  std::vector<std::string> ends;
  if (others.empty()) return ends;
  const auto body = makers_of(model, {head.node->outputs.at(0)});
  const auto makers = makers_of(model, others);
  for (const Node& node : model.graph().nodes) {
    const auto maker = makers.find(&node);
    if (maker == makers.end() || body.contains(&node)) continue;
    const bool layer = is_any_of(node.op_type, {"Gemm", "MatMul", "Conv", "ConvTranspose", "LSTM",
                                                "GRU", "RNN"}) &&
                       std::ranges::any_of(node.inputs, [&](const std::string& input) {
                         return is_float_constant(onnx::constant_shape(model, input));
                       });
    if (!layer && node.domain.empty() && !node.op_type.starts_with("QLinear") &&
        !node.op_type.ends_with("Integer")) {
      continue;
    }
    if (std::ranges::find(ends, maker->second) == ends.end()) ends.emplace_back(maker->second);
  }
  return ends;
}

// The numbers of a layer that is the head.
OnnxHead loaded(const Model& model, OnnxHead head) {
  if (head.kind == OnnxHead::Kind::classifier) return head;  // lists of a node: they are there
  const auto load = [&](const Node& node, std::size_t input) {
    std::optional<Constant> constant = onnx::constant_value(model, node.inputs[input]);
    if (!constant) refuse_layer(model, node, "its numbers cannot be read");
    return std::move(*constant);
  };
  if (multiplies_integers(*head.node)) {
    load_integers(model, head);
    return head;
  }
  head.weights = load(*head.node, head.weights_input);
  if (head.kind == OnnxHead::Kind::conv) head.weights.tensor.shape.resize(2);
  if (head.bias)
    head.bias = load(head.bias_node != nullptr ? *head.bias_node : *head.node, head.bias_input);
  load_integers(model, head);
  return head;
}

// The layer that is chosen; else the last of the layers that the outputs come from, if all the
// others come before it: their outputs show its features.
OnnxHead last_layer(const Model& model, const OnnxHeadChoice& choice) {
  LayerFinder finder(model);
  std::vector<OnnxCandidate> found;
  std::unordered_map<const Node*, std::size_t> places;
  std::optional<Error> first_refusal;
  std::vector<std::string> refused;
  for (const onnx::ValueInfo& output : model.graph().outputs) {
    const Layer& layer = finder.find(output.name);
    if (layer.head) {
      const auto [place, is_new] = places.emplace(layer.head->node, found.size());
      if (is_new) found.push_back({*layer.head, {}});
      found[place->second].outputs.push_back(output.name);
      continue;
    }
    if (!first_refusal) first_refusal = layer.refusal;
    refused.push_back(output.name);
  }
  if (found.empty() && choice.empty()) throw Error(*first_refusal);
  const auto node_of = [](const OnnxCandidate& candidate) { return candidate.head.node; };
  OnnxCandidate last = choice.empty() ? *std::ranges::max_element(found, {}, node_of)
                                      : chosen_layer(model, found, choice);
  const auto before = makers_of(model, {last.head.features});
  const auto stays = [&](const OnnxCandidate& other) {
    return other.head.node != last.head.node && !before.contains(other.head.node);
  };
  if (choice.empty()) {
    const std::vector<std::string> ends = ends_of_other_heads(model, last.head, refused);
    if (std::ranges::any_of(found, stays) || !ends.empty()) ask_which(model, found, ends);
  }
  for (const OnnxCandidate& other : found)
    if (stays(other)) last.head.other_heads.push_back(describe(other));
  return loaded(model, std::move(last.head));
}

// A LinearClassifier reads as many features as its input has, and leaves coefficients over.
void check_features_read(const Model& model, const onnx::Shapes& shapes, const OnnxHead& head) {
  if (head.kind != OnnxHead::Kind::classifier) return;
  const onnx::Shapes::Shape* const shape = shapes.shape(head.features);
  if (shape == nullptr || shape->empty() || !shape->back().value) return;
  const auto features = static_cast<std::int64_t>(head.view().features());
  if (*shape->back().value != features)
    refuse_layer(model, *head.node,
                 fmt::format("it has {} coefficients for each class and reads {} features",
                             features, *shape->back().value));
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
    view.transposed = weights_input != 0;
    view.weight_scale = scale;
  }
  if (bias_node != nullptr && bias_node->op_type == "Sub") view.bias_scale = -1;
  if (bias_unused) {
    view.bias_scale = 1;
  } else if (bias) {
    view.bias = bias->tensor;
  }
  if (folded_weights) view.weights = *folded_weights;
  if (folded_bias) view.bias = *folded_bias;
  return view;
}

void check_enough_left(const Model& model, const OnnxHead& head, std::size_t left) {
  if (head.tail.largest_k <= left) return;
  fail(ErrorCode::unfilterable,
       "{}: a TopK asks for the {} best classes, and only {} would be left", model.what(),
       head.tail.largest_k, left);
}

void OnnxHead::require_enough_classes(const Model& model) const {
  const std::size_t count = classes();
  if (count < 3)
    refuse_layer(
        model, *node,
        fmt::format("{} classes, wanted at least three: with one class gone nothing would be left "
                    "to tell apart",
                    count));
  if (tail.largest_k >= count)
    refuse_layer(model, *node,
                 fmt::format("its {} best of {} classes are asked for by a TopK; with one class "
                             "gone there are too few",
                             tail.largest_k, count));
}

OnnxHead find_onnx_head(const Model& model, const OnnxHeadChoice& choice) {
  if (model.graph().outputs.empty())
    fail(ErrorCode::unfilterable, "{}: the graph has no outputs", model.what());
  if (model.graph().cyclic)
    fail(ErrorCode::bad_input, "{}: nodes of the graph wait for one another: it cannot run",
         model.what());
  OnnxHead head = last_layer(model, choice);
  const TensorView& weights = head.weights.tensor;
  if (!is_float(weights.dtype) || weights.rank() != 2)
    refuse_layer(model, *head.node,
                 fmt::format("its weights are {}, wanted a matrix of floating point numbers",
                             oubli::describe(weights)));
  const std::size_t classes = head.view().classes();
  if (classes < 2)
    refuse_layer(
        model, *head.node,
        fmt::format("{} classes, wanted at least two: there is nothing to tell apart", classes));
  if (head.view().features() == 0) refuse_layer(model, *head.node, "its weights are empty");
  if (head.bias) {
    if (head.bias->tensor.dtype != weights.dtype)
      refuse_layer(model, *head.node, "weights and bias are of different types");
    check_bias(model, *head.node, head, classes);
  }
  head.as_floats = choice.as_floats && head.integers.has_value();
  if (head.integers && !head.folded.empty())
    refuse_node(model, *head.folded.front(),
                "scales or shifts the classes one by one behind a quantised layer; fold it into "
                "the layer before quantising");
  const onnx::Shapes shapes(model);
  fold_steps(model, head);
  check_features_read(model, shapes, head);
  find_rounding(model, head);
  follow_tail(model, shapes, head, classes);
  return head;
}

}  // namespace oubli
