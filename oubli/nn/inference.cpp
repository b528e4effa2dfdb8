#include "oubli/nn/inference.h"

#include <algorithm>
#include <vector>

#include "oubli/nn/convolution.h"
#include "oubli/nn/dense.h"

namespace oubli::nn {
namespace {

// Transformed weights are four times as large. At 128 x 128 they no longer fit the second-level
// cache, and reading them costs about what is saved.
constexpr std::size_t kMostWeights = std::size_t{64} * 64;
// oneDNN has blocked kernels for windows up to kAnyImage on images of any size, and up to
// kLargestWindow on images no smaller than the window.
constexpr std::size_t kAnyImage = 3;
constexpr std::size_t kLargestWindow = 7;

std::vector<std::size_t> readers_of(const Graph& graph) {
  std::vector<std::size_t> readers(graph.values.size(), 0);
  for (const Op& op : graph.ops) {
    ++readers[op.input];
    if (op.other != kNone) ++readers[op.other];
  }
  return readers;
}

void rename(Graph& graph, std::size_t from, std::size_t to) {
  for (Op& op : graph.ops)
    for (std::size_t* value : {&op.input, &op.other, &op.output})
      if (*value == from) *value = to;
  if (graph.features == from) graph.features = to;
  graph.values[from] = {0, 0, 0, false};
}

// add(X, conv) where nobody else reads the two: the convolution adds itself to X.
void fuse_additions(Graph& graph) {
  for (std::size_t i = 1; i < graph.ops.size(); ++i) {
    const Op add = graph.ops[i];
    Op& conv = graph.ops[i - 1];
    if (add.kind != OpKind::add || conv.kind != OpKind::conv || conv.relu || conv.sum) continue;
    const std::vector<std::size_t> readers = readers_of(graph);
    const std::size_t summand = add.input == conv.output ? add.other : add.input;
    const bool ends_here = (add.input == conv.output || add.other == conv.output) &&
                           summand != conv.output && summand != 0 && readers[summand] == 1 &&
                           readers[conv.output] == 1;
    if (!ends_here) continue;
    const std::size_t result = conv.output;
    conv.sum = true;
    conv.relu = add.relu;
    graph.ops.erase(graph.ops.begin() + static_cast<std::ptrdiff_t>(i));
    rename(graph, result, summand);
    rename(graph, add.output, summand);
    --i;
  }
}

// Which values can be in blocks of channels. Neutral ones are the same bytes in blocks and in NHWC.
class Blocks {
 public:
  explicit Blocks(const Graph& graph) : graph_(graph) {
    for (const Shape& shape : graph.values)
      can_.push_back(!shape.flat && shape.channels > 0 && shape.channels % kBlock == 0);
    refuse(0);
    do {
      changed_ = false;
      for (const Op& op : graph.ops) narrow(op);
    } while (changed_);
  }

  [[nodiscard]] bool neutral(std::size_t value) const {
    const Shape& shape = graph_.values[value];
    return can_[value] && (shape.channels == kBlock || shape.pixels() == 1);
  }
  [[nodiscard]] bool possible(std::size_t value) const { return can_[value]; }

 private:
  void refuse(std::size_t value) {
    if (!can_[value] || neutral(value)) return;
    can_[value] = false;
    changed_ = true;
  }
  void agree(std::size_t a, std::size_t b) {
    if (!can_[a]) refuse(b);
    if (!can_[b]) refuse(a);
  }
  [[nodiscard]] bool has_kernel(const Op& op) const {
    const Shape& in = graph_.values[op.input];
    return op.stride <= 2 && op.kernel <= kLargestWindow &&
           op.kernel <= std::max(kAnyImage, std::min(in.height, in.width));
  }
  void narrow(const Op& op) {
    switch (op.kind) {
      case OpKind::conv:
        if (!has_kernel(op)) {
          refuse(op.input);
          refuse(op.output);
        }
        agree(op.input, op.output);
        break;
      case OpKind::dense:
        refuse(op.input);
        break;
      case OpKind::batch_norm:
        refuse(op.input);
        refuse(op.output);
        break;
      case OpKind::add:
        agree(op.other, op.output);
        [[fallthrough]];
      default:
        agree(op.input, op.output);
    }
  }

  const Graph& graph_;
  std::vector<bool> can_;
  bool changed_ = false;
};

bool suits_winograd(const Graph& graph, const Op& op) {
  const std::size_t weights = graph.values[op.input].channels * graph.values[op.output].channels;
  return op.kind == OpKind::conv && op.kernel == 3 && op.stride == 1 && weights <= kMostWeights &&
         std::max({op.pad_top, op.pad_bottom, op.pad_left, op.pad_right}) <= 1;
}

void choose_winograd(Graph& graph) {
  const Blocks blocks(graph);
  bool any = false;
  for (Op& op : graph.ops) {
    op.winograd =
        suits_winograd(graph, op) && blocks.possible(op.input) && blocks.possible(op.output);
    any = any || op.winograd;
  }
  if (!any) return;
  for (Op& op : graph.ops) {
    const bool both = blocks.possible(op.input) && blocks.possible(op.output);
    const bool same = blocks.neutral(op.input) && blocks.neutral(op.output);
    op.blocked = op.winograd || (both && !same);
  }
}

}  // namespace

Graph for_inference(Graph graph) {
  fuse_additions(graph);
  if (has_avx512()) choose_winograd(graph);
  for (Op& op : graph.ops)
    op.packed = op.kind == OpKind::dense &&
                PackedDense::suits(graph.values[op.input].size(), graph.values[op.output].size());
  return graph;
}

}  // namespace oubli::nn
