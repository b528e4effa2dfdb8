#pragma once

#include <cstddef>
#include <vector>

#include "oubli/nn/network.h"
#include "oubli/nn/spec.h"

namespace oubli::nn {

// A NetworkSpec as a flat list of operations on numbered values, in order of execution. Inside,
// images are rows x columns x channels (NHWC).

struct Shape {
  std::size_t channels = 1;
  std::size_t height = 1;
  std::size_t width = 1;
  bool flat = false;  // a vector (of dense units), no longer an image
  [[nodiscard]] std::size_t pixels() const { return height * width; }
  [[nodiscard]] std::size_t size() const { return channels * height * width; }
};

enum class OpKind {
  conv,
  dense,
  max_pool,
  global_max_pool,
  global_average_pool,
  batch_norm,
  relu,
  sigmoid,
  add
};

inline constexpr std::size_t kNone = static_cast<std::size_t>(-1);

struct Op {
  OpKind kind = OpKind::relu;
  std::size_t input = 0;      // value
  std::size_t other = kNone;  // value; add: the second summand
  std::size_t output = 0;     // value
  bool relu = false;          // the output is max(0, result): a relu layer fused into this op
  bool relu_masked = false;   // the gradient of the output arrives with the relu's mask applied
  bool mask_input = false;    // max_pool: apply that mask for the op before
  bool accumulate = false;    // add to the input's gradient instead of setting it
  bool accumulate_other = false;
  bool sum = false;       // conv, inference: added to what the output holds, before the relu
  bool blocked = false;   // inference: images in blocks of 16 channels, n x C/16 x h x w x 16
  bool winograd = false;  // conv, inference: by Winograd's algorithm; blocked
  bool packed = false;    // dense, inference: by PackedDense
  std::size_t kernel = 0;
  std::size_t stride = 1;
  std::size_t pad_top = 0;
  std::size_t pad_left = 0;
  std::size_t pad_bottom = 0;
  std::size_t pad_right = 0;
  std::size_t weight = kNone;  // parameters; batch_norm: scale, shift, running mean and variance
  std::size_t bias = kNone;
  std::size_t mean = kNone;
  std::size_t variance = kNone;
};

struct Graph {
  std::vector<Shape> values;  // value 0 is the image
  std::vector<Op> ops;
  std::vector<Parameter> parameters;  // without values
  std::size_t features = 0;           // value: input of the head, which is the last op
};

// Error{usage} if the layers do not fit.
[[nodiscard]] Graph compile(const NetworkSpec& spec);

}  // namespace oubli::nn
