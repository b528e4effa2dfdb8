#pragma once

#include <cstddef>
#include <span>

#include "oubli/nn/executor.h"
#include "oubli/nn/train.h"

namespace oubli::nn {

// Applies gradients to the parameters of a store as they arrive.
class Updater : public GradientSink {
 public:
  // `store` must outlive the updater.
  Updater(const Optimizer& optimizer, const Graph& graph, ParameterStore& store);
  // To be called before every backward pass.
  void begin_step();
  void take(std::size_t parameter, std::size_t offset, std::span<const float> gradient) override;

  // What it remembers of earlier steps; empty buffers where it does not train.
  [[nodiscard]] const ParameterStore& first_moments() const { return first_; }
  [[nodiscard]] const ParameterStore& second_moments() const { return second_; }
  [[nodiscard]] std::size_t steps() const { return step_; }

 private:
  Optimizer optimizer_;
  ParameterStore& store_;
  ParameterStore first_;   // adam: mean of gradients; sgd: velocity
  ParameterStore second_;  // adam: mean of their squares
  std::vector<bool> decays_;
  std::size_t step_ = 0;
  float rate_ = 0;
};

}  // namespace oubli::nn
