#include "oubli/onnx/graph.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "oubli/base/error.h"

namespace oubli::onnx {

const Attribute* Node::attribute(std::string_view attribute_name) const {
  const auto found = std::ranges::find(attributes, attribute_name, &Attribute::name);
  return found == attributes.end() ? nullptr : &*found;
}

std::int64_t Node::int_or(std::string_view attribute_name, std::int64_t otherwise) const {
  const Attribute* found = attribute(attribute_name);
  return found == nullptr ? otherwise : found->i;
}

float Node::float_or(std::string_view attribute_name, float otherwise) const {
  const Attribute* found = attribute(attribute_name);
  return found == nullptr ? otherwise : found->f;
}

std::string Node::describe() const {
  const std::string operation = domain.empty() ? op_type : domain + "." + op_type;
  if (!name.empty()) return fmt::format("{} node '{}'", operation, name);
  return fmt::format("{} node of '{}'", operation, outputs.empty() ? "" : outputs.front());
}

const TensorInfo* Graph::initializer(std::string_view tensor_name) const {
  const auto found = initializers_by_name_.find(tensor_name);
  return found == initializers_by_name_.end() ? nullptr : found->second;
}

const Node* Graph::producer(std::string_view value) const {
  const auto found = producers_.find(value);
  return found == producers_.end() ? nullptr : found->second;
}

bool Graph::is_output(std::string_view value) const { return output_infos_.contains(value); }

std::vector<const ValueInfo*> Graph::at(const Infos& infos, std::string_view value) {
  std::vector<const ValueInfo*> found;
  const auto [begin, end] = infos.equal_range(value);
  for (auto info = begin; info != end; ++info) found.push_back(info->second);
  return found;
}

// Each node after those whose outputs it or its subgraphs read; of several that can run next, the
// first in the file. So a file that is in order stays in order.
void Graph::sort_nodes() {
  std::unordered_map<std::string_view, std::size_t> maker;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& output : nodes[i].outputs) maker.emplace(output, i);
  std::vector<std::vector<std::size_t>> readers(nodes.size());
  std::vector<std::size_t> waits(nodes.size());
  bool sorted = true;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const auto* const names : {&nodes[i].inputs, &nodes[i].outer_names})
      for (const std::string& read : *names) {
        const auto made = read.empty() ? maker.end() : maker.find(read);
        if (made == maker.end() || made->second == i) continue;
        readers[made->second].push_back(i);
        ++waits[i];
        sorted = sorted && made->second < i;
      }
  if (sorted) return;
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (waits[i] == 0) ready.push(i);
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const std::size_t reader : readers[order.back()])
      if (--waits[reader] == 0) ready.push(reader);
  }
  cyclic = order.size() != nodes.size();
  if (cyclic) return;
  std::vector<Node> in_order;
  in_order.reserve(nodes.size());
  for (const std::size_t i : order) in_order.push_back(std::move(nodes[i]));
  nodes = std::move(in_order);
}

void Graph::index(const std::string& what) {
  sort_nodes();
  for (const TensorInfo& tensor : initializers)
    if (!initializers_by_name_.emplace(tensor.name, &tensor).second)
      fail(ErrorCode::bad_input, "{}: two stored tensors are called '{}'", what, tensor.name);
  for (const Node& node : nodes)
    for (const std::string& output : node.outputs)
      if (!output.empty() &&
          (!producers_.emplace(output, &node).second || initializers_by_name_.contains(output)))
        fail(ErrorCode::bad_input, "{}: '{}' is made twice", what, output);
  for (const auto* const values : {&inputs, &value_infos})
    for (const ValueInfo& value : *values) infos_.emplace(value.name, &value);
  for (const ValueInfo& output : outputs) output_infos_.emplace(output.name, &output);
}

}  // namespace oubli::onnx
