#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "oubli/model/onnx/head.h"

namespace oubli {

// Steps of the way back from an output to the layer that makes the logits.

[[nodiscard]] bool is_any_of(std::string_view name, std::initializer_list<std::string_view> names);

// Error{unfilterable} with what is known against such a node, else with `otherwise`.
[[noreturn]] void refuse_layer(const onnx::Model& model, const onnx::Node& node,
                               std::string_view otherwise);

// A constant without its elements, which only the layer that is chosen needs.
[[nodiscard]] std::optional<onnx::Constant> find_constant(const onnx::Model& model,
                                                          const std::string& value);

// The layer that ends with `node`, if one does; its constants without their elements, which only
// the layer that is chosen needs. Error{unfilterable} if it is one that cannot be filtered.
[[nodiscard]] std::optional<OnnxHead> layer_at(const onnx::Model& model, const onnx::Node& node);

// The data input to follow backwards from a node behind the logits; nothing if the node is not one
// that keeps the classes apart.
[[nodiscard]] std::optional<std::string> step_back(const onnx::Model& model,
                                                   const onnx::Node& node);

}  // namespace oubli
