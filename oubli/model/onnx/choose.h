#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oubli/model/onnx/head.h"

namespace oubli {

// A layer that could be the head, and the outputs of the graph that come from it.
struct OnnxCandidate {
  OnnxHead head;
  std::vector<std::string> outputs;
};

// "Gemm node 'fc' (output 'y'): 10 classes x 512 features", of shapes alone.
[[nodiscard]] std::string describe(const OnnxCandidate& candidate);

// The layer that `choice` asks for: by its node, a graph output, or its tensor of weights. `found`
// are the last layers of the outputs. Error{usage} if there is none of that name, naming those
// there are, or if the two ask for different ones.
[[nodiscard]] OnnxCandidate chosen_layer(const onnx::Model& model,
                                         const std::vector<OnnxCandidate>& found,
                                         const OnnxHeadChoice& choice);

// Error{usage}: a person has to say which. `others`: outputs that no layer was found for.
[[noreturn]] void ask_which(const onnx::Model& model, const std::vector<OnnxCandidate>& found,
                            const std::vector<std::string>& others);

}  // namespace oubli
