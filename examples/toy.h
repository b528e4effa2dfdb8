#pragma once

// A toy problem for the examples: four Gaussian classes in five dimensions, and a linear layer
// whose rows point to their centres.

#include <cstdint>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/base/random.h"

namespace toy {

inline constexpr std::size_t kClasses = 4, kFeatures = 5, kSamples = 400;

struct Problem {
  oubli::Matrix<double> weights{kClasses, kFeatures};
  oubli::Matrix<float> features{kSamples, kFeatures};
  std::vector<std::uint32_t> labels;
};

inline Problem make() {
  oubli::RandomStream random(1, oubli::task_id("toy"));
  Problem toy;
  for (double& value : toy.weights.flat()) value = 2 * random.normal();
  for (std::size_t n = 0; n < kSamples; ++n) {
    const std::size_t j = n % kClasses;
    toy.labels.push_back(static_cast<std::uint32_t>(j));
    for (std::size_t d = 0; d < kFeatures; ++d)
      toy.features(n, d) = static_cast<float>(toy.weights(j, d) + random.normal());
  }
  return toy;
}

}  // namespace toy
