#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oubli/hdf5/file.h"
#include "oubli/model/keras/config.h"
#include "oubli/model/model_file.h"

namespace oubli {

// Where a head's numbers are in an HDF5 file of Keras.
struct KerasWeights {
  const Hdf5Object* kernel = nullptr;  // features x classes
  const Hdf5Object* bias = nullptr;    // or none
  // The optimizer's numbers for them, of the same shapes: moments, velocities, ...
  std::vector<const Hdf5Object*> moments;
  std::vector<Finding> findings;
};

// `head`: what the configuration says; without it (weights alone) the last layer is taken where the
// file tells their order, or the only one there is. What a person chose comes first.
// Error{usage} if there are several that could be it, {unfilterable} if there is none or the
// optimizer's numbers cannot be told apart.
[[nodiscard]] KerasWeights find_keras_weights(const Hdf5File& file, const std::string& what,
                                              const std::optional<KerasHead>& head,
                                              const HeadChoice& choice);

}  // namespace oubli
