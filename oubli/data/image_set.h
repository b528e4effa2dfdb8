#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace oubli {

// Labelled images, kept as bytes: a quarter of the memory of floats, converted per batch.
struct ImageSet {
  std::string name;
  std::size_t channels = 0;
  std::size_t height = 0;
  std::size_t width = 0;
  std::vector<std::uint8_t> pixels;  // images x channels x height x width
  std::vector<std::uint32_t> labels;
  std::vector<std::string> class_names;

  [[nodiscard]] std::size_t size() const { return labels.size(); }
  [[nodiscard]] std::size_t image_size() const { return channels * height * width; }
  [[nodiscard]] std::size_t classes() const { return class_names.size(); }
  [[nodiscard]] std::span<const std::uint8_t> image(std::size_t index) const {
    return std::span(pixels).subspan(index * image_size(), image_size());
  }
};

// The images `indices`, in that order, labels unchanged.
[[nodiscard]] ImageSet select_images(const ImageSet& set, std::span<const std::size_t> indices);

// At most `images` images (0: all) of each of the classes `names`, which are numbered in that
// order. Error{bad_input} if there is no class of a name.
[[nodiscard]] ImageSet classes_named(const ImageSet& set, std::span<const std::string> names,
                                     std::size_t images);

// The set without the classes `forgotten`: their images and names are gone, the other classes are
// numbered anew in their old order. Errors as split_classes().
[[nodiscard]] ImageSet without_classes(const ImageSet& set, std::span<const std::size_t> forgotten);

// Half the height and width (odd last rows and columns are dropped): means of 2 x 2 pixels,
// rounded.
[[nodiscard]] ImageSet half_size(const ImageSet& set);

}  // namespace oubli
