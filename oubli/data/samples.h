#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oubli/array/tensor.h"
#include "oubli/base/file.h"

namespace oubli {

// One input: an image, or an array of numbers as a file holds it.
struct Sample {
  bool image = false;
  std::size_t height = 0, width = 0, channels = 0;  // of an image
  std::vector<std::uint8_t> pixels;                 // height x width x channels
  Tensor array;                                     // if it is no image
  std::string what;                                 // for messages
};

// Labelled inputs that are read one at a time, so that memory does not grow with their number. A
// sample has one label, or one for each of its positions.
class SampleSource {
 public:
  // A folder with one subfolder of images (PNG, JPEG, PGM/PPM, BMP) per class; an .npz file with x
  // and y, of which y may have more axes than one, for positions; the name of a data set ("mnist":
  // its test images; "mnist:train": its training images). Error{usage} if `where` is none of these,
  // Error{bad_input} if it is damaged or empty. Samples of the classes called as in `leave_out` are
  // as if they were not there.
  [[nodiscard]] static std::unique_ptr<SampleSource> open(
      const std::string& where, std::span<const std::string> leave_out = {});
  virtual ~SampleSource() = default;
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::size_t size() const {
    std::size_t each = 1;
    for (const std::size_t extent : positions_) each *= extent;
    return labels_.size() / each;
  }
  // In the numbering of the source, see match_labels; sample by sample. Of positions that do not
  // count: kNoLabel.
  [[nodiscard]] std::span<const std::uint32_t> labels() const { return labels_; }
  // Of the labels of a sample, along each of their axes; none: it has one.
  [[nodiscard]] std::span<const std::size_t> positions() const { return positions_; }
  // Of the source's own classes; empty if its labels are the model's class numbers.
  [[nodiscard]] std::span<const std::string> class_names() const { return class_names_; }
  // Its files, for digests; empty for data sets known by name.
  [[nodiscard]] std::span<const std::filesystem::path> files() const { return files_; }
  // Those that stay mapped: what was read is what these hold.
  [[nodiscard]] std::span<const std::shared_ptr<const MappedFile>> mapped() const {
    return mapped_;
  }
  // Safe to call from several threads.
  [[nodiscard]] virtual Sample read(std::size_t index) const = 0;

 protected:
  explicit SampleSource(std::string name) : name_(std::move(name)) {}
  std::vector<std::uint32_t> labels_;
  std::vector<std::size_t> positions_;
  std::vector<std::string> class_names_;
  std::vector<std::filesystem::path> files_;
  std::vector<std::shared_ptr<const MappedFile>> mapped_;

 private:
  std::string name_;
};

// The names of the subfolders that SampleSource::open() takes for classes, in its order.
[[nodiscard]] std::vector<std::string> class_folders(const std::filesystem::path& folder);

// The labels in the numbering of a model with `classes` classes, called `model_names` (empty: not
// known). Classes are matched by name; if no name fits, in order and only if the numbers of classes
// agree. Error{bad_input} says what does not fit. `how` tells a person what was done.
[[nodiscard]] std::vector<std::uint32_t> match_labels(const SampleSource& source,
                                                      std::size_t classes,
                                                      std::span<const std::string> model_names,
                                                      std::string& how);

// The same where the model need not know every class: nothing for samples of the others.
[[nodiscard]] std::vector<std::optional<std::uint32_t>> known_labels(
    const SampleSource& source, std::size_t classes, std::span<const std::string> model_names,
    std::string& how);

// Decodes one image file. Error{bad_input} names it. A few bytes may promise any size: an
// image of more than `spare_bytes` and 16 times its file, at four bytes per pixel, is refused, and
// so is one that takes four times as much to decode.
[[nodiscard]] Sample decode_image(const std::filesystem::path& path,
                                  std::uint64_t spare_bytes = std::uint64_t{64} << 20);

}  // namespace oubli
