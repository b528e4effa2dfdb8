#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/onnx/model.h"

namespace oubli::onnx {

// A value known without running the graph: an initializer or Constant node, possibly behind nodes
// that only rearrange or convert it.
struct Constant {
  SharedTensor tensor;                      // the value where it is used
  const TensorInfo* initializer = nullptr;  // where it is stored: this ...
  const Node* constant_node = nullptr;      // ... or this
  std::vector<const Node*> chain;  // the nodes between, the one nearest to the consumer first
};

// Follows Identity, Cast, Reshape, Transpose, Squeeze, Unsqueeze, Flatten and DequantizeLinear back
// to a stored tensor. Nothing if the value depends on the input of the model, or is not a tensor of
// numbers.
[[nodiscard]] std::optional<Constant> constant_value(const Model& model, std::string_view value);

// Its type and shape alone: no elements, nothing is rearranged or converted.
[[nodiscard]] std::optional<TensorView> constant_shape(const Model& model, std::string_view value);
// Where a constant value is stored and by which nodes it goes, without `tensor`; and the numbers
// there.
[[nodiscard]] std::optional<Constant> constant_source(const Model& model, std::string_view value);
[[nodiscard]] std::optional<SharedTensor> load_source(const Model& model, const Constant& source);

// A constant tensor of integers as numbers: shapes, axes.
[[nodiscard]] std::optional<std::vector<std::int64_t>> constant_ints(const Model& model,
                                                                     std::string_view value);
// Axes of Squeeze, Unsqueeze, Reduce...: the attribute of older opsets or the constant input.
// nothing: none are given. Error{unfilterable} if they are computed.
[[nodiscard]] std::optional<std::vector<std::int64_t>> axes_of(const Model& model,
                                                               const Node& node);

// Who reads each value, as indices of nodes; outputs of the graph count as readers too.
struct Readers {
  std::vector<std::size_t> nodes;
  bool graph_output = false;
  bool subgraph = false;  // a subgraph of one of the nodes mentions the name
  [[nodiscard]] std::size_t count() const { return nodes.size() + (graph_output ? 1 : 0); }
};
[[nodiscard]] std::map<std::string, Readers, std::less<>> readers_of(const Graph& graph);

}  // namespace oubli::onnx
