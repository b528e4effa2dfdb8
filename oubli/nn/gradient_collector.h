#pragma once

// For tests only: keeps the gradients that a backward pass delivers.

#include <algorithm>

#include "oubli/nn/executor.h"

namespace oubli::nn {

class GradientCollector : public GradientSink {
 public:
  explicit GradientCollector(const ParameterStore& store) {
    for (const Buffer& buffer : store) gradients_.emplace_back(buffer.size());
  }
  void take(std::size_t parameter, std::size_t offset, std::span<const float> gradient) override {
    std::ranges::copy(gradient, gradients_[parameter].data() + offset);
  }
  [[nodiscard]] const ParameterStore& gradients() const { return gradients_; }

 private:
  ParameterStore gradients_;
};

}  // namespace oubli::nn
