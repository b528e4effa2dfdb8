#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/filtration/head.h"
#include "oubli/model/onnx/integers.h"
#include "oubli/onnx/constants.h"
#include "oubli/onnx/model.h"

namespace oubli {

namespace onnx {
class Shapes;
}

// The label of every class that a graph answers with: whole numbers or texts; neither if they are
// not known.
struct OnnxLabels {
  std::vector<std::int64_t> numbers;
  std::vector<std::string> texts;
  [[nodiscard]] std::size_t size() const { return std::max(numbers.size(), texts.size()); }
};

// What follows the logits in a graph: every value that still has one entry per class, and every
// constant that depends on how many classes there are.
struct OnnxTail {
  struct Value {
    std::string name;
    std::size_t class_axis;
  };
  struct ShapeConstant {  // the shape of a Reshape, or a part of it, that spells out their number
    const onnx::Node* node;
    std::size_t input;  // which of the node's: a constant; or the attribute `shape`
    std::size_t position;
  };
  std::vector<Value> values;
  std::map<std::string, std::size_t> samples_axes;  // of outputs, where it is known
  // Lists of equal length in attributes of a node, such as classlabels_ints, or keys and values.
  struct LabelTable {
    const onnx::Node* node;
    std::vector<std::string> lists;
    std::vector<std::vector<std::size_t>> classes;  // of each entry: it goes with the last of them
    bool counts_classes = false;  // the first list has the numbers of classes themselves
    OnnxLabels labels;            // what every class is called
  };
  std::vector<ShapeConstant> shapes;
  std::vector<std::string> label_constants;  // values holding one label per class
  std::vector<LabelTable> label_tables;
  std::map<std::string, std::vector<std::int64_t>> label_outputs;  // of outputs that are labels
  // Steps after which a common shift of the logits shows: Relu, Sigmoid, ... Empty for softmax.
  std::vector<std::string> nonlinear;
  bool decides = false;       // an output is a softmax, a class, a label: this is a classifier
  std::size_t largest_k = 0;  // of the TopK nodes
  std::vector<std::string> other_outputs;  // graph outputs that do not depend on the logits
};

// Where in a value the rows are that a layer reads or makes, one for each answer: one axis has
// their entries, one counts samples, all others count positions.
struct OnnxRows {
  std::size_t entries = 1;
  std::optional<std::size_t> samples = 0;  // nothing: it is not known which
  bool with_positions = false;  // that axis counts the positions of each sample, too, in its order
};

// The last layer of a classifier in an ONNX graph.
struct OnnxHead {
  enum class Kind { gemm, matmul, conv, classifier };

  Kind kind = Kind::gemm;
  const onnx::Node* node = nullptr;        // the Gemm, MatMul, Conv or LinearClassifier
  const onnx::Node* bias_node = nullptr;   // the Add or Sub after a MatMul
  const onnx::Node* scale_node = nullptr;  // the Mul or Div between them, by one number ...
  double scale = 1;                        // ... which makes it scale W f: positive
  std::size_t weights_input = 1;           // which input of `node`
  std::size_t bias_input = 2;              // ... of `node`, or of `bias_node`
  onnx::Constant weights;
  std::optional<onnx::Constant> bias;   // its view has shape [classes] ...
  std::vector<std::size_t> bias_shape;  // ... whatever shape it is used in
  bool bias_unused = false;             // Gemm with beta = 0: its C is not added
  std::string features;                 // the value the layer reads
  // The value with bias, after pooling if there is any; none where a LinearClassifier makes
  // something else of it.
  std::string logits;
  bool columns = false;         // features stand in columns (features x samples)
  std::size_t logits_rank = 2;  // of a Gemm or Conv
  OnnxRows feature_rows, logit_rows;
  // There is an answer for each position; else the mean over positions, if there are any, is one.
  bool per_position = false;
  // Steps behind it that scale and shift the classes one by one, in the order they run; and the
  // layer with them in it, which takes the place of all.
  std::vector<const onnx::Node*> folded;
  std::optional<SharedTensor> folded_weights, folded_bias;
  std::vector<const onnx::Node*> between;  // `node` and what the bias is added to: Cast, Mul
  std::optional<OnnxIntegers> integers;    // it is stored in whole numbers
  bool as_floats = false;                  // ... and will be in floats, its logits, too
  std::optional<OnnxScaled> features_in_8_bits, logits_in_8_bits;  // what these values stand for
  OnnxRoundings rounding;
  // They make floats of 8-bit logits; `quantise` makes 8 bits of float ones.
  const onnx::Node* quantise = nullptr;
  const onnx::Node* dequantise = nullptr;
  OnnxTail tail;
  std::vector<std::string> other_heads;  // last layers of other outputs, described; they stay

  // logits = weight_scale W f + bias_scale b. Views into the model.
  [[nodiscard]] HeadView view() const;
  [[nodiscard]] std::size_t classes() const { return view().classes(); }
  // What the layer makes, bias included; and what the steps behind it that become part of it make.
  [[nodiscard]] const std::string& layer_output() const {
    if (kind == Kind::classifier && node->outputs.size() > 1) return node->outputs[1];
    return (bias_node != nullptr ? bias_node : between.empty() ? node : between.back())->outputs[0];
  }
  [[nodiscard]] const std::string& made() const {
    return folded.empty() ? layer_output() : folded.back()->outputs[0];
  }
  [[nodiscard]] bool has(const onnx::Node& part) const {
    return &part == node || &part == scale_node || &part == bias_node ||
           std::ranges::find(between, &part) != between.end() ||
           std::ranges::find(folded, &part) != folded.end();
  }
  // Error{unfilterable} if there are too few classes to lose one.
  void require_enough_classes(const onnx::Model& model) const;
};

// Error{unfilterable} that names the node.
[[noreturn]] void refuse_node(const onnx::Model& model, const onnx::Node& node,
                              std::string_view reason);

// Which of several last layers is the head, in a person's words; empty: there is one answer.
struct OnnxHeadChoice {
  std::string head = {};     // a node, or an output of the graph
  std::string weights = {};  // the tensor of weights
  std::string value = {};    // what the layer makes: of a file that was just written
  bool as_floats = false;    // whole numbers will become floats
  [[nodiscard]] bool empty() const { return head.empty() && weights.empty() && value.empty(); }
};

// Walks back from the outputs to the layer that makes the logits and forward again over all that
// depends on them. Error{unfilterable} with a reason that a person can act on; {usage} if there are
// several and none is chosen. It may be a head with too few classes to lose one: a new model that
// is only looked at.
[[nodiscard]] OnnxHead find_onnx_head(const onnx::Model& model, const OnnxHeadChoice& choice = {});

// Error{unfilterable} if the graph asks for more than `left` classes: a TopK.
void check_enough_left(const onnx::Model& model, const OnnxHead& head, std::size_t left);

// The forward walk: fills `tail`. Called by find_onnx_head.
void follow_tail(const onnx::Model& model, const onnx::Shapes& shapes, OnnxHead& head,
                 std::size_t classes);

}  // namespace oubli
