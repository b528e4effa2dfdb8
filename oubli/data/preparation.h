#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "oubli/data/samples.h"

namespace oubli {

// What the person says about how inputs are made from images; the rest follows from the model's
// input, or is asked for.
struct PreparationOptions {
  std::optional<double> scale = {};        // pixels 0 ... 255 are multiplied by it
  std::vector<double> mean = {};           // then this is subtracted, one value or one per channel,
  std::vector<double> standard = {};       // ... and divided by this
  std::optional<bool> channels_last = {};  // --layout nhwc
  std::optional<bool> colour = {};         // --grey / --colour
  std::optional<std::pair<std::size_t, std::size_t>> size = {};  // height, width

  bool operator==(const PreparationOptions&) const = default;
};

// The input of a model, without the batch axis. Unknown extents are empty.
struct InputShape {
  DType dtype = DType::f32;
  std::vector<std::optional<std::size_t>> extents;
};

// What was done to images so that they fit, besides scaling their numbers.
struct ImageChanges {
  std::size_t resized = 0;
  std::size_t squashed = 0;  // of these: to another ratio of height to width
  std::size_t turned_grey = 0;

  ImageChanges& operator+=(const ImageChanges& more);
  bool operator==(const ImageChanges&) const = default;
};
// "of 60 images 60 were resized, 20 of them squashed (another ratio of height to width)"; empty if
// nothing was done.
[[nodiscard]] std::string describe(const ImageChanges& changes, std::size_t images);

// Turns samples into the numbers a model takes: grey or colour, resized, scaled, shifted, laid out.
class Preparation {
 public:
  // Error{usage} naming the flag to give if the shape leaves a question open.
  Preparation(const PreparationOptions& options, const InputShape& input, const Sample& example);

  // Of one sample.
  [[nodiscard]] const std::vector<std::size_t>& shape() const { return shape_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::size_t bytes() const;
  // Error{bad_input} naming the sample if it does not fit. Says what it took.
  ImageChanges write(const Sample& sample, std::span<std::byte> out) const;
  // "28 x 28 grey, pixels x 1/255, NCHW", for people and receipts.
  [[nodiscard]] std::string describe() const;
  // What was decided, as options that leave no question open: they prepare samples in the same way
  // whatever the defaults will be. Without any entry where numbers are taken as they are.
  [[nodiscard]] PreparationOptions as_used() const;

 private:
  void plan_image(const PreparationOptions& options, const InputShape& input,
                  const Sample& example);
  // Calls `put` with the place and the value of every number that is made of a row of an image in
  // the size that the model takes, or of a whole one.
  template <typename Pixel, typename Put>
  void put_row(std::size_t y, std::span<const Pixel> pixels, const Put& put) const;
  template <typename Put>
  void put_image(const Sample& sample, const Put& put) const;

  DType dtype_ = DType::f32;
  std::vector<std::size_t> shape_;
  bool image_ = false;
  std::size_t height_ = 0, width_ = 0, channels_ = 0;
  bool channels_last_ = false;
  double scale_ = 1;
  std::vector<double> mean_, standard_;  // one per channel
};

}  // namespace oubli
