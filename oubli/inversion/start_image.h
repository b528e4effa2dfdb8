#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "oubli/data/image_set.h"

namespace oubli {

// The image that a descent starts from, in [0, 1], channels first, as large as those of `data`:
// `word` is a grey level, "noise" (from `seed`), "mean" (of all classes), "image:N" or an image
// file of that size or twice as large. Error{usage} for any other word, Error{bad_input} for files.
[[nodiscard]] std::vector<float> start_image(const std::string& word, std::uint64_t seed,
                                             const ImageSet& data);

}  // namespace oubli
