#pragma once

#include <cstddef>

#include "oubli/nn/graph.h"

namespace oubli::nn {

// Channels of a block, where images are in blocks (Op::blocked).
inline constexpr std::size_t kBlock = 16;

// The same network for the forward pass alone, faster:
// - a residual sum is added by the convolution before it, in place;
// - 3 x 3 convolutions of stride 1 are computed by Winograd's algorithm where the processor has
//   kernels for it and everything around can work in blocks of 16 channels, so that no layer needs
//   another layout than the one before it. Measured, layer by layer: docs/internals/training.md.
// The image, the features and the logits stay in NHWC.
[[nodiscard]] Graph for_inference(Graph graph);

}  // namespace oubli::nn
