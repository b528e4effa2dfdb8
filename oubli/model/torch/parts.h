#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oubli/model/model_file.h"
#include "oubli/model/torch/tensors.h"

namespace oubli::torch {

// What else in a checkpoint has one row per class because the head has: its rows go, too.
struct Companion {
  std::size_t tensor = 0;
  std::string why;  // "the optimizer's state of fc.weight"
};

// Which tensors are the head, and which follow it. Numbers count in the list of all tensors.
struct Parts {
  std::size_t weights = 0;
  std::optional<std::size_t> bias;
  std::vector<Companion> companions;
  std::vector<Finding> findings;
};

// Error{usage} if several could be the head, with their names and shapes; {unfilterable} if none
// is, or an optimizer's state cannot be told apart.
[[nodiscard]] Parts find_parts(const Archive& archive, std::span<const Tensor> tensors,
                               const HeadChoice& choice);

// The name without what checkpoints put around a model: "fc.weight" of "ema.module.fc.weight".
[[nodiscard]] std::string bare_name(std::string_view name);

}  // namespace oubli::torch
