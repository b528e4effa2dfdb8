#pragma once

#include <string>
#include <vector>

#include "oubli/base/json_place.h"

namespace oubli {

// The last layer of a Keras model, as its configuration describes it.
struct KerasHead {
  std::vector<std::string> names;  // of the models around it, outermost first, and its own
  std::string folder;              // in a .keras file: "layers/sequential/layers/dense_1"
  std::size_t units = 0;
  bool bias = true;
  bool shift_shows = false;       // an activation other than softmax follows
  std::string activation;         // what follows the logits: "softmax", "linear", ...
  std::vector<JsonPlace> counts;  // where the number of classes stands in the text
};

// `text` is model_config of an .h5 file or config.json of a .keras file, of Keras 1 to 3. From the
// one output backwards over activations to a Dense layer, into models that are layers themselves.
// Error{unfilterable} if there is something else, if the model has several outputs, or if something
// but its output reads the layer.
[[nodiscard]] KerasHead find_keras_head(const std::string& text, const std::string& what);

// The number in as many characters, spaces first: JSON allows them, and the text keeps its length.
[[nodiscard]] std::string padded_number(std::size_t number, std::size_t width);

}  // namespace oubli
