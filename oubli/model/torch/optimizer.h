#pragma once

#include <span>
#include <string>
#include <vector>

#include "oubli/model/torch/tensors.h"

namespace oubli::torch {

// The states of optimizers in a checkpoint: {'state': {i: {'exp_avg': tensor, ...}},
// 'param_groups':
// [{'params': [0, 1, ...]}]}. i numbers the parameters that the optimizer was given.
class Optimizers {
 public:
  Optimizers(const pickle::Pickle& pickle, std::span<const Tensor> tensors);

  // Whether the tensor is a part of one.
  [[nodiscard]] bool holds(std::size_t tensor) const { return held_[tensor]; }
  // Those with a row per row of `parameter`, one of `model`, the tensors of the model in the file's
  // order. Error{unfilterable} if it cannot be told which.
  [[nodiscard]] std::vector<std::size_t> moments_of(std::size_t parameter,
                                                    std::span<const std::size_t> model,
                                                    const std::string& what) const;

 private:
  struct Entry {
    std::int64_t number = 0;
    std::vector<std::size_t> tensors;
  };
  struct State {
    std::size_t parameters = 0;  // that the groups list
    bool flat = false;           // one vector over all parameters (LBFGS)
    std::vector<Entry> entries;
  };
  [[nodiscard]] bool fits(const Entry& entry, const Tensor& parameter) const;
  // The entry of `parameter`, by the order of the model's parameters; else by a shape that only it
  // has. Nothing if it has no state.
  [[nodiscard]] const Entry* entry_of(const State& state, std::size_t parameter,
                                      std::span<const std::size_t> model,
                                      const std::string& what) const;

  std::span<const Tensor> tensors_;
  std::vector<State> states_;
  std::vector<bool> held_;
};

}  // namespace oubli::torch
