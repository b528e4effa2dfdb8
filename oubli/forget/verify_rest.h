#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "oubli/model/model_file.h"

namespace oubli {

// What a look at one file beside the other came to.
struct RestCheck {
  bool passed = false;
  std::string detail;
};

// Whether `model` is byte for byte what putting its own head into `original` gives: the edit is
// made again, in a temporary folder, and compared. `name`: what the model was called when it was
// made, if that is known.
[[nodiscard]] RestCheck check_rest(const ModelFile& original, const ModelFile& model,
                                   std::span<const std::size_t> forget, const std::string& name);

// Whether the files of `model` hold rows of the forgotten classes of `original`, in any form that
// is looked for.
[[nodiscard]] RestCheck check_old_rows(const ModelFile& original, const ModelFile& model,
                                       std::span<const std::size_t> forget);
// Whether they hold what changed of a layer, units x inputs, as it was; a layer that did not change
// at all is one that is still there.
[[nodiscard]] RestCheck check_old_layer(const TensorView& old_layer, const TensorView& new_layer,
                                        const ModelFile& model);

}  // namespace oubli
