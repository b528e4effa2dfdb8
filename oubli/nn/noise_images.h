#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "oubli/base/random.h"
#include "oubli/data/image_set.h"
#include "oubli/nn/spec.h"

namespace oubli::nn {

// Images of the size that the network takes, of random pixels; labels 0, 1, ... in turn. For tests
// and benchmarks.
inline ImageSet noise_images(const NetworkSpec& spec, std::size_t count) {
  ImageSet set{.name = "noise",
               .channels = spec.channels,
               .height = spec.height,
               .width = spec.width,
               .pixels = {},
               .labels = {},
               .class_names = {}};
  for (std::size_t c = 0; c < spec.classes; ++c) set.class_names.push_back(std::to_string(c));
  for (std::size_t i = 0; i < count; ++i)
    set.labels.push_back(static_cast<std::uint32_t>(i % spec.classes));
  RandomStream random(1, task_id("noise"));
  for (std::size_t i = 0; i < count * set.image_size(); ++i)
    set.pixels.push_back(static_cast<std::uint8_t>(random.next_u32()));
  return set;
}

}  // namespace oubli::nn
