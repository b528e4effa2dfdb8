#include "oubli/inversion/start_image.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <span>

#include "oubli/base/count.h"
#include "oubli/base/error.h"
#include "oubli/base/random.h"
#include "oubli/data/samples.h"
#include "oubli/inversion/study.h"

namespace oubli {
namespace {

std::vector<float> in_unit(std::span<const std::uint8_t> pixels) {
  std::vector<float> image(pixels.size());
  std::ranges::transform(pixels, image.begin(),
                         [](std::uint8_t v) { return static_cast<float>(v) / 255; });
  return image;
}

// Faces at half size may be started from a whole one.
std::vector<float> from_file(const std::string& path, const ImageSet& data) {
  const Sample file = decode_image(path);
  ImageSet set{.name = path,
               .channels = file.channels,
               .height = file.height,
               .width = file.width,
               .pixels = std::vector<std::uint8_t>(file.pixels.size()),
               .labels = {0},
               .class_names = {"start"}};
  for (std::size_t c = 0; c < file.channels; ++c)  // channels first
    for (std::size_t p = 0; p < file.height * file.width; ++p)
      set.pixels[c * file.height * file.width + p] = file.pixels[p * file.channels + c];
  if (set.height / 2 == data.height && set.width / 2 == data.width) set = half_size(set);
  if (set.channels != data.channels || set.height != data.height || set.width != data.width)
    fail(ErrorCode::bad_input, "--start {}: an image of {} x {} x {}, wanted {} x {} x {}", path,
         file.channels, file.height, file.width, data.channels, data.height, data.width);
  return in_unit(set.pixels);
}

std::vector<float> noise(std::uint64_t seed, std::size_t size) {
  RandomStream random(seed, task_id("inversion start"));
  std::vector<float> image(size);
  for (float& v : image) v = static_cast<float>(random.uniform());
  return image;
}

std::vector<float> mean_of_classes(const ImageSet& data) {
  std::vector<float> image(data.image_size());
  for (const auto& mean : class_mean_images(data))
    for (std::size_t i = 0; i < image.size(); ++i)
      image[i] += mean[i] / static_cast<float>(data.classes());
  return image;
}

}  // namespace

std::vector<float> start_image(const std::string& word, std::uint64_t seed, const ImageSet& data) {
  if (word == "noise") return noise(seed, data.image_size());
  if (word == "mean") return mean_of_classes(data);
  if (word.starts_with("image:")) {
    if (const auto number = parse_count(word.substr(6), 0, data.size() - 1))
      return in_unit(data.image(*number));
    fail(ErrorCode::usage, "--start {}: there are images 0 to {}", word, data.size() - 1);
  }
  if (std::filesystem::is_regular_file(word)) return from_file(word, data);
  double grey = -1;
  const auto [at, error] = std::from_chars(word.data(), word.data() + word.size(), grey);
  if (error != std::errc() || at != word.data() + word.size() || !(grey >= 0 && grey <= 1))
    fail(ErrorCode::usage,
         "--start {}: a grey level from 0 to 1, noise, mean, image:N or an image file", word);
  return std::vector<float>(data.image_size(), static_cast<float>(grey));
}

}  // namespace oubli
