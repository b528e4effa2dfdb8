#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oubli/data/preparation.h"

namespace oubli {

// How the publisher of a model says that its inputs are made.
struct StatedPreparation {
  PreparationOptions options = {};  // scale, mean, standard, size, as far as they are said
  // What these options cannot say and what hardly changes answers, as a centre crop: left out.
  std::vector<std::string> not_done = {};
  std::string cannot = {};  // what they cannot say and what must not be left out; else empty
};

// From the text of preprocessor_config.json (transformers), or of config.json (timm). None if it is
// not about images. Error{bad_input} naming `what` if it is no JSON.
[[nodiscard]] std::optional<StatedPreparation> parse_preparation_config(const std::string& text,
                                                                        const std::string& what);

// The options in words: "--scale 0.5 --mean 0.5 --std 0.25 --size 32x32".
[[nodiscard]] std::string option_words(const PreparationOptions& options);

}  // namespace oubli
