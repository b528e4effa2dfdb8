#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "oubli/model/onnx/head.h"

namespace oubli {

// Steps behind a layer that scale and shift every class by itself: BatchNormalization at inference;
// Mul, Div, Add and Sub with one stored number per class, and with a single one between these. The
// new layer has them in it.

// The layer behind which such steps end with `node`; `layer_at` gives the layer that ends with a
// node. Nothing if there is none, or if the last step is the same for all classes.
[[nodiscard]] std::optional<OnnxHead> folded_layer_at(
    const onnx::Model& model, const onnx::Node& node,
    const std::function<std::optional<OnnxHead>(const onnx::Node&)>& layer_at);

// Works out head.folded_weights and folded_bias. Error{unfilterable} if they are not finite.
void fold_steps(const onnx::Model& model, OnnxHead& head);

// Which input of such a step has the logits.
[[nodiscard]] std::optional<std::size_t> folded_input(const onnx::Model& model,
                                                      const onnx::Node& node);

}  // namespace oubli
