#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "oubli/model/quantised_head.h"
#include "oubli/onnx/constants.h"

namespace oubli {

struct OnnxHead;

// Numbers that a graph rounds to whole ones: multiples of `step` in [low, high].
struct OnnxRounding {
  double step = 0;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

// What a graph does so to W f, and then to the logits.
struct OnnxRoundings {
  OnnxRounding product, logits;
};

// 8-bit numbers, and the values in the graph that say what they stand for.
struct OnnxScaled {
  std::string scale;
  std::string zero;  // empty: 0
};

// A head in whole numbers: QDQ (DequantizeLinear before a Gemm, MatMul or Conv), QGemm,
// QLinearMatMul with or without QLinearAdd, MatMulInteger.
struct OnnxIntegers {
  // A stored tensor of it, where it is read, and which of its axes counts classes.
  struct Part {
    const onnx::Node* node = nullptr;
    std::size_t input = 0;
    onnx::Constant constant;
    std::optional<std::size_t> class_axis;
  };
  Part weights, scales;
  std::optional<Part> zeros;
  std::optional<Part> bias, bias_scales, bias_zeros;  // a bias in whole numbers
  bool turned = false;  // the weights are transposed between where they are stored and used
  HeadGrid grid;
  std::string no_fresh_grid;  // why the numbers cannot be put on another grid; else empty
  // The scales of the input and of the weights, multiplied by one another, behind a MatMulInteger.
  const onnx::Node* scale_product = nullptr;
};

// The layer of integers that ends with `node`, if one does; without its numbers.
[[nodiscard]] std::optional<OnnxHead> integer_layer_at(const onnx::Model& model,
                                                       const onnx::Node& node);

// Whether the operation `node` multiplies whole numbers.
[[nodiscard]] bool multiplies_integers(const onnx::Node& node);

// Finds the parts of a head, which has its numbers already, if it is one of QDQ form; and reads the
// numbers of one that multiplies integers.
void load_integers(const onnx::Model& model, OnnxHead& head);

// Finds where the logits are rounded to 8 bits right behind the layer: by the layer itself, or by a
// QuantizeLinear and a DequantizeLinear.
void find_rounding(const onnx::Model& model, OnnxHead& head);

}  // namespace oubli
