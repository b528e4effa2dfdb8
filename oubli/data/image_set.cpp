#include "oubli/data/image_set.h"

#include <algorithm>

#include "oubli/base/class_split.h"
#include "oubli/base/error.h"

namespace oubli {

ImageSet select_images(const ImageSet& set, std::span<const std::size_t> indices) {
  ImageSet chosen{.name = set.name,
                  .channels = set.channels,
                  .height = set.height,
                  .width = set.width,
                  .pixels = {},
                  .labels = {},
                  .class_names = set.class_names};
  chosen.pixels.reserve(indices.size() * set.image_size());
  chosen.labels.reserve(indices.size());
  for (const std::size_t index : indices) {
    OUBLI_ASSERT(index < set.size());
    const auto image = set.image(index);
    chosen.pixels.insert(chosen.pixels.end(), image.begin(), image.end());
    chosen.labels.push_back(set.labels[index]);
  }
  return chosen;
}

ImageSet classes_named(const ImageSet& set, std::span<const std::string> names,
                       std::size_t images) {
  for (const std::string& name : names)
    if (std::ranges::find(set.class_names, name) == set.class_names.end())
      fail(ErrorCode::bad_input, "{} has no class '{}', which the model has", set.name, name);
  std::vector<std::size_t> chosen;
  std::vector<std::uint32_t> labels;
  std::vector<std::size_t> seen(names.size());
  for (std::size_t i = 0; i < set.size(); ++i) {
    const auto found = std::ranges::find(names, set.class_names[set.labels[i]]);
    if (found == names.end()) continue;
    const auto label = static_cast<std::size_t>(found - names.begin());
    if (images != 0 && seen[label]++ >= images) continue;
    chosen.push_back(i);
    labels.push_back(static_cast<std::uint32_t>(label));
  }
  ImageSet out = select_images(set, chosen);
  out.labels = std::move(labels);
  out.class_names.assign(names.begin(), names.end());
  return out;
}

ImageSet without_classes(const ImageSet& set, std::span<const std::size_t> forgotten) {
  const ClassSplit split = split_classes(set.classes(), forgotten);
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < set.size(); ++i)
    if (!split.forgets(set.labels[i])) indices.push_back(i);
  ImageSet rest = select_images(set, indices);
  for (std::uint32_t& label : rest.labels)
    label = static_cast<std::uint32_t>(*split.new_index(label));
  rest.class_names.clear();
  for (const std::size_t c : split.retained) rest.class_names.push_back(set.class_names[c]);
  return rest;
}

ImageSet half_size(const ImageSet& set) {
  ImageSet half = set;
  half.height = set.height / 2;
  half.width = set.width / 2;
  half.pixels.assign(set.size() * half.image_size(), 0);
  auto out = half.pixels.begin();
  for (std::size_t plane = 0; plane < set.size() * set.channels; ++plane) {
    const std::uint8_t* in = set.pixels.data() + plane * set.height * set.width;
    for (std::size_t y = 0; y < half.height; ++y)
      for (std::size_t x = 0; x < half.width; ++x) {
        const std::uint8_t* corner = in + 2 * y * set.width + 2 * x;
        const int sum = corner[0] + corner[1] + corner[set.width] + corner[set.width + 1];
        *out++ = static_cast<std::uint8_t>((sum + 2) / 4);
      }
  }
  return half;
}

}  // namespace oubli
