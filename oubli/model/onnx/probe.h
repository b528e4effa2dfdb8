#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "oubli/model/onnx/head.h"
#include "oubli/model/onnx/model.h"

namespace oubli {

// A copy of a model for running: it also outputs what the head reads, the logits, and `values`.
struct OnnxProbe {
  std::vector<std::byte> bytes;
  std::string features;  // names of the first two
  std::string logits;
  // ONNX Runtime has no bfloat16 on CPUs: such a model was converted to float32 throughout.
  bool as_float = false;
};

[[nodiscard]] OnnxProbe make_probe(const OnnxModel& model,
                                   std::span<const std::string> values = {});

}  // namespace oubli
