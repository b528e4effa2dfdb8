#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/model/onnx/head.h"

namespace oubli {

namespace onnx {
class Editor;
}

// scikit-learn's operators (domain ai.onnx.ml): a LinearClassifier is a last layer with its labels;
// ZipMap and LabelEncoder hold labels, all of them in attributes.

[[nodiscard]] bool is_scikit_learn(const onnx::Node& node, std::string_view op_type);
// ArrayFeatureExtractor, Normalizer, ZipMap or LabelEncoder: what may follow scores and labels.
[[nodiscard]] bool is_label_operation(const onnx::Node& node);

// The layer that is `node`, if it is a LinearClassifier. Error{unfilterable} if it cannot be
// filtered.
[[nodiscard]] std::optional<OnnxHead> linear_classifier_at(const onnx::Model& model,
                                                           const onnx::Node& node);
// What a LinearClassifier makes of its scores: "NONE", "SOFTMAX", "LOGISTIC", ...
[[nodiscard]] std::string post_transform(const onnx::Node& node);

// The labels that a LinearClassifier or ZipMap has in its classlabels_...; `tables` gains the list.
// Error{unfilterable} unless there is one per class.
[[nodiscard]] OnnxLabels listed_labels(const onnx::Model& model, const onnx::Node& node,
                                       std::size_t classes,
                                       std::vector<OnnxTail::LabelTable>& tables);
// What a LabelEncoder makes of the labels `from`, or of the numbers of classes if there are none;
// `tables` gains its lists.
[[nodiscard]] OnnxLabels encoded_labels(const onnx::Model& model, const onnx::Node& node,
                                        const OnnxLabels* from, std::size_t classes,
                                        std::vector<OnnxTail::LabelTable>& tables);

// Gives a LinearClassifier other numbers.
void replace_coefficients(onnx::Editor& editor, const onnx::Node& node, const Tensor& weights,
                          const Tensor& bias);
// Removes the entries of the classes in `forget`.
void cut_label_table(onnx::Editor& editor, const OnnxTail::LabelTable& table,
                     std::span<const std::size_t> forget);
// Adds a LinearClassifier of the same numbers without post-transform to the graph; the name of its
// scores.
[[nodiscard]] std::string add_raw_scores(onnx::Editor& editor, const onnx::Node& node);

// "3", "7", ...; nothing if they are 0, 1, 2, ..., which are no names.
[[nodiscard]] std::vector<std::string> names_in(const OnnxLabels& labels);

}  // namespace oubli
