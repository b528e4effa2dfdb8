#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/filtration/head.h"
#include "oubli/onnx/constants.h"
#include "oubli/onnx/model.h"

namespace oubli {

namespace onnx {
class Shapes;
}

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
  std::vector<ShapeConstant> shapes;
  std::vector<std::string> label_constants;  // values holding one label per class
  // Steps after which a common shift of the logits shows: Relu, Sigmoid, ... Empty for softmax.
  std::vector<std::string> nonlinear;
  std::size_t largest_k = 0;               // of the TopK nodes
  std::vector<std::string> other_outputs;  // graph outputs that do not depend on the logits
};

// The last layer of a classifier in an ONNX graph.
struct OnnxHead {
  enum class Kind { gemm, matmul, conv };

  Kind kind = Kind::gemm;
  const onnx::Node* node = nullptr;        // the Gemm, MatMul or Conv
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
  std::string logits;           // the value with bias, for Conv after pooling if there is any
  bool columns = false;         // features stand in columns (features x samples)
  std::size_t logits_axis = 1;  // the class axis of `logits`
  std::size_t logits_rank =
      2;  // of a Gemm or Conv; features and logits of a Conv may have positions
  OnnxTail tail;
  std::vector<std::string> other_heads;  // last layers of other outputs, described; they stay

  // logits = weight_scale W f + bias_scale b. Views into the model.
  [[nodiscard]] HeadView view() const;
  [[nodiscard]] std::size_t classes() const { return view().classes(); }
  // What the layer makes, bias included.
  [[nodiscard]] const std::string& made() const {
    return (bias_node != nullptr ? bias_node : node)->outputs[0];
  }
  // "Gemm node 'fc': 1000 classes x 2048 features, float32"
  [[nodiscard]] std::string describe() const;
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
