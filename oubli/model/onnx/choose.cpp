#include "oubli/model/onnx/choose.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "oubli/model/onnx/layer.h"

namespace oubli {

namespace {

using onnx::Model;
using onnx::Node;

bool is_called(const Node* node, const std::string& name) {
  return node != nullptr &&
         (node->name == name || std::ranges::find(node->outputs, name) != node->outputs.end());
}

// By the name of one of its nodes, of what they make, or of an output that comes from it.
bool is_called(const OnnxCandidate& candidate, const std::string& name) {
  return is_called(candidate.head.node, name) || is_called(candidate.head.bias_node, name) ||
         std::ranges::find(candidate.outputs, name) != candidate.outputs.end();
}

bool has_weights(const OnnxCandidate& candidate, const std::string& name) {
  const OnnxHead& head = candidate.head;
  if (head.kind == OnnxHead::Kind::classifier) return false;  // they are no tensor
  const onnx::TensorInfo* const stored = head.weights.initializer;
  return head.node->inputs.at(head.weights_input) == name ||
         (stored != nullptr && stored->name == name);
}

// Every layer of the graph, in the order they run; `found` know their outputs.
std::vector<OnnxCandidate> all_layers(const Model& model, const std::vector<OnnxCandidate>& found) {
  std::vector<OnnxCandidate> layers;
  for (const Node& node : model.graph().nodes) {
    std::optional<OnnxHead> head;
    try {
      head = layer_at(model, node);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unfilterable) throw;
    }
    if (!head) continue;
    // A product, met again with its bias.
    std::erase_if(layers, [&](const OnnxCandidate& c) { return c.head.node == head->node; });
    const auto known = std::ranges::find_if(
        found, [&](const OnnxCandidate& c) { return c.head.node == head->node; });
    layers.push_back(
        {std::move(*head), known == found.end() ? std::vector<std::string>() : known->outputs});
  }
  return layers;
}

std::string list_of(const std::vector<OnnxCandidate>& candidates) {
  constexpr std::size_t kMost = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(candidates.size(), kMost); ++i)
    text += (i == 0 ? "" : ", ") + describe(candidates[i]);
  if (candidates.size() > kMost) text += fmt::format(" and {} more", candidates.size() - kMost);
  return text;
}

}  // namespace

std::string describe(const OnnxCandidate& candidate) {
  const HeadView view = candidate.head.view();
  const std::string outputs =
      candidate.outputs.empty()
          ? ""
          : fmt::format(" (output{} '{}')", candidate.outputs.size() == 1 ? "" : "s",
                        fmt::join(candidate.outputs, "', '"));
  if (view.weights.rank() < 2) return candidate.head.node->describe() + outputs;
  return fmt::format("{}{}: {} classes x {} features", candidate.head.node->describe(), outputs,
                     view.classes(), view.features());
}

OnnxCandidate chosen_layer(const Model& model, const std::vector<OnnxCandidate>& found,
                           const OnnxHeadChoice& choice) {
  std::vector<OnnxCandidate> layers = all_layers(model, found);
  std::string asked;
  const auto narrow = [&](const std::string& option, const std::string& name, const auto& fits) {
    if (name.empty()) return;
    asked += fmt::format("{}{} {}", asked.empty() ? "" : " ", option, name);
    std::erase_if(layers, [&](const OnnxCandidate& layer) { return !fits(layer, name); });
  };
  narrow("--head", choice.head, [](const OnnxCandidate& layer, const std::string& name) {
    return is_called(layer, name);
  });
  narrow("--weights", choice.weights, has_weights);
  narrow("its result", choice.value, [](const OnnxCandidate& layer, const std::string& name) {
    return layer.head.made() == name;
  });
  if (layers.size() == 1) return std::move(layers.front());
  if (!layers.empty())
    fail(ErrorCode::usage, "{}: {} is said of {} layers; wanted one of {}", model.what(), asked,
         layers.size(), list_of(layers));
  if (found.empty())
    fail(ErrorCode::usage, "{}: no linear layer is meant by {}", model.what(), asked);
  fail(ErrorCode::usage, "{}: no linear layer is meant by {}; the outputs come from {}",
       model.what(), asked, list_of(found));
}

void ask_which(const Model& model, const std::vector<OnnxCandidate>& found,
               const std::vector<std::string>& others) {
  std::string text = list_of(found);
  if (!others.empty())
    text += fmt::format(", and layers that cannot be chosen, for '{}'", fmt::join(others, "', '"));
  fail(ErrorCode::usage,
       "{}: its outputs come from several last layers; say with --head which one is to forget, by "
       "node or output: {}",
       model.what(), text);
}

}  // namespace oubli
