#pragma once

#include <vector>

#include "oubli/nn/network.h"
#include "oubli/nn/spec.h"

namespace oubli::nn {

struct Folded {
  NetworkSpec spec;
  std::vector<Parameter> parameters;
};

// The same function without the batch normalisations that follow a convolution or dense layer:
// their running statistics become part of its weights and bias. For inference.
[[nodiscard]] Folded fold_batch_norm(const NetworkSpec& spec,
                                     const std::vector<Parameter>& parameters);

}  // namespace oubli::nn
