#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "oubli/model/onnx/head.h"
#include "oubli/onnx/model.h"

namespace oubli {

namespace onnx {
class Editor;
}

// Labels that a graph looks up by the number of a class: labels[ArgMax(logits)].

// Error{unfilterable} unless the labels that `node` (Gather, ArrayFeatureExtractor) reads can be
// cut: one per class along the axis of the look-up, stored as they are read.
void check_labels(const onnx::Model& model, const onnx::Node& node, std::size_t classes);

// A table with the labels of classes is cut, so nothing else may depend on it: Error{unfilterable}.
// `tables` names each as often as it is looked up.
void check_label_readers(const onnx::Model& model, const std::vector<std::string>& tables);

// A stored tensor of one label per class: texts, or whole numbers. Neither, if it is of another
// kind.
[[nodiscard]] OnnxLabels stored_labels(const onnx::Model& model, const std::string& value,
                                       std::size_t classes);

// Removes the labels of the classes in `forget` from the table `value`.
void cut_labels(onnx::Editor& editor, const std::string& value, std::size_t classes,
                std::span<const std::size_t> forget);

}  // namespace oubli
