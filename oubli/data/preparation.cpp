#include "oubli/data/preparation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "oubli/base/error.h"

namespace oubli {

namespace {

struct Tap {
  std::size_t begin;
  std::vector<double> weights;
};

// For every target position the source positions that count, and how much.
std::vector<Tap> taps(std::size_t from, std::size_t to) {
  std::vector<Tap> result(to);
  const double ratio = static_cast<double>(from) / static_cast<double>(to);
  const double support = std::max(1.0, ratio);
  for (std::size_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * ratio;
    const double low = std::max(0.0, std::floor(centre - support + 0.5));
    const double high = std::min(static_cast<double>(from), std::floor(centre + support + 0.5));
    result[i].begin = static_cast<std::size_t>(low);
    double sum = 0;
    for (double j = low; j < high; ++j) {
      const double weight = std::max(0.0, 1 - std::abs((j + 0.5 - centre) / support));
      result[i].weights.push_back(weight);
      sum += weight;
    }
    for (double& weight : result[i].weights) weight /= sum;
  }
  return result;
}

// ITU-R BT.601 luma, as image programs compute grey.
double grey_of(double red, double green, double blue) {
  return 0.299 * red + 0.587 * green + 0.114 * blue;
}

double clamp_to(DType dtype, double value) {
  switch (dtype) {
    case DType::i8:
      return std::clamp(value, -128.0, 127.0);
    case DType::u8:
      return std::clamp(value, 0.0, 255.0);
    case DType::i16:
      return std::clamp(value, -32768.0, 32767.0);
    case DType::u16:
      return std::clamp(value, 0.0, 65535.0);
    default:
      return value;
  }
}

void store(DType dtype, std::span<const double> values, std::span<std::byte> out) {
  if (is_float(dtype)) return encode(dtype, values, out);
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto number = static_cast<std::int64_t>(std::nearbyint(clamp_to(dtype, values[i])));
    std::memcpy(out.data() + i * size, &number, size);  // little-endian, two's complement
  }
}

// What the axes of a model's input are, for images. No height or width: any.
struct ImageAxes {
  std::size_t channels = 1;
  std::optional<std::size_t> height, width;
  bool channels_last = false;
};

bool are_channels_last(const PreparationOptions& options, const InputShape& input) {
  if (options.channels_last) return *options.channels_last;
  const auto could = [](const std::optional<std::size_t>& extent) {
    return !extent || *extent == 1 || *extent == 3;
  };
  const auto &first = input.extents[0], &last = input.extents[2];
  const bool first_says = could(first) && first.has_value();
  const bool last_says = could(last) && last.has_value();
  if (first_says != last_says) return last_says;
  if (could(first) != could(last)) return could(last);
  fail(ErrorCode::usage,
       "the model's input does not show whether channels come first or last: give --layout nchw or "
       "nhwc");
}

ImageAxes axes_of_images(const PreparationOptions& options, const InputShape& input,
                         const Sample& example) {
  const auto& extents = input.extents;
  const auto asked = options.colour ? std::optional<std::size_t>(*options.colour ? 3 : 1)
                                    : std::optional<std::size_t>();
  if (extents.size() == 1) {  // a flat vector
    const std::size_t channels = asked.value_or(example.channels);
    if (channels != 1 && !options.channels_last) {
      fail(
          ErrorCode::usage,
          "the model takes a flat vector: give --layout nchw or nhwc for the order of the colours");
    }
    return {channels, {}, {}, options.channels_last.value_or(false)};
  }
  if (extents.size() == 2) return {1, extents[0], extents[1], false};
  if (extents.size() != 3) {
    fail(ErrorCode::unfilterable,
         "the model's input has {} axes besides the batch, wanted 1 to 3 for images",
         extents.size());
  }
  const bool last = are_channels_last(options, input);
  const std::optional<std::size_t> channels = extents[last ? 2 : 0] ? extents[last ? 2 : 0] : asked;
  if (!channels)
    fail(ErrorCode::usage,
         "the model's input does not say how many channels it has: give --grey or --colour");
  return {*channels, extents[last ? 0 : 1], extents[last ? 1 : 2], last};
}

void check_channels(const PreparationOptions& options, std::size_t channels) {
  if (channels != 1 && channels != 3) {
    if (options.channels_last)
      fail(ErrorCode::usage,
           "--layout {}: then the model's input has {} channels, and images have 1 (grey) or 3 "
           "(colour); try --layout {}",
           *options.channels_last ? "nhwc" : "nchw", channels,
           *options.channels_last ? "nchw" : "nhwc");
    fail(ErrorCode::unfilterable,
         "the model's input has {} channels; images have 1 (grey) or 3 (colour)", channels);
  }
  if (options.colour && channels != (*options.colour ? 3 : 1)) {
    fail(ErrorCode::usage,
         "the model's input has {} channels, which --grey or --colour contradicts", channels);
  }
}

// Height and width as the model, the options or, for a flat vector, the example says.
void settle_size(const PreparationOptions& options, const InputShape& input, const Sample& example,
                 ImageAxes& axes) {
  if (options.size) {
    const auto [height, width] = *options.size;
    if ((axes.height && *axes.height != height) || (axes.width && *axes.width != width))
      fail(ErrorCode::usage, "--size {}x{} contradicts the model's input", height, width);
    axes.height = height;
    axes.width = width;
  }
  const bool flat = input.extents.size() == 1;
  if (flat && !axes.height) {
    axes.height = example.height;
    axes.width = example.width;
  }
  if (!axes.height || !axes.width)
    fail(ErrorCode::usage, "the model takes images of any size: give --size HEIGHTxWIDTH");
  const std::size_t count = axes.channels * *axes.height * *axes.width;
  if (flat && input.extents[0] && *input.extents[0] != count) {
    fail(ErrorCode::usage,
         "the model takes {} numbers, {} x {} images with {} channels give {}: give --size, --grey "
         "or --colour",
         *input.extents[0], *axes.height, *axes.width, axes.channels, count);
  }
}

std::vector<double> per_channel(const std::vector<double>& given, double otherwise,
                                std::size_t channels, const char* option) {
  if (given.size() <= 1)
    return std::vector<double>(channels, given.empty() ? otherwise : given.front());
  if (given.size() != channels)
    fail(ErrorCode::usage, "{}: {} values, wanted 1 or {}", option, given.size(), channels);
  return given;
}

}  // namespace

std::vector<float> resize_image(const Sample& sample, std::size_t height, std::size_t width) {
  const std::size_t channels = sample.channels;
  std::vector<float> rows(sample.height * width * channels);
  const std::vector<Tap> across = taps(sample.width, width);
  for (std::size_t y = 0; y < sample.height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t c = 0; c < channels; ++c) {
        double sum = 0;
        for (std::size_t k = 0; k < across[x].weights.size(); ++k) {
          sum += across[x].weights[k] *
                 sample.pixels[(y * sample.width + across[x].begin + k) * channels + c];
        }
        rows[(y * width + x) * channels + c] = static_cast<float>(sum);
      }
    }
  }
  std::vector<float> out(height * width * channels);
  const std::vector<Tap> down = taps(sample.height, height);
  const std::size_t line = width * channels;
  std::vector<double> sums(line);
  for (std::size_t y = 0; y < height; ++y) {
    std::ranges::fill(sums, 0.0);
    for (std::size_t k = 0; k < down[y].weights.size(); ++k) {  // row by row: vector code
      const double weight = down[y].weights[k];
      const float* const row = rows.data() + (down[y].begin + k) * line;
      for (std::size_t i = 0; i < line; ++i) sums[i] += weight * static_cast<double>(row[i]);
    }
    for (std::size_t i = 0; i < line; ++i) out[y * line + i] = static_cast<float>(sums[i]);
  }
  return out;
}

Preparation::Preparation(const PreparationOptions& options, const InputShape& input,
                         const Sample& example)
    : dtype_(input.dtype), image_(example.image) {
  if (image_) {
    plan_image(options, input, example);
    return;
  }
  if (options != PreparationOptions{}) {
    fail(ErrorCode::usage,
         "--scale, --mean, --std, --layout, --size, --grey and --colour are for images of bytes; "
         "the numbers of {} are taken as they are",
         example.what);
  }
  const std::vector<std::size_t>& found = example.array.shape;
  bool fits = found.size() == input.extents.size();
  for (std::size_t i = 0; fits && i < found.size(); ++i)
    fits = !input.extents[i] || *input.extents[i] == found[i];
  if (!fits) {
    std::vector<std::string> wanted;
    for (const auto& extent : input.extents)
      wanted.push_back(extent ? std::to_string(*extent) : "any");
    fail(ErrorCode::bad_input, "{}: shape [{}], the model wants [{}]", example.what,
         fmt::join(found, ", "), fmt::join(wanted, ", "));
  }
  shape_ = found;
}

void Preparation::plan_image(const PreparationOptions& options, const InputShape& input,
                             const Sample& example) {
  ImageAxes axes = axes_of_images(options, input, example);
  check_channels(options, axes.channels);
  settle_size(options, input, example, axes);
  channels_last_ = axes.channels_last;
  channels_ = axes.channels;
  height_ = *axes.height;
  width_ = *axes.width;
  if (input.extents.size() == 1) {
    shape_ = {channels_ * height_ * width_};
  } else if (input.extents.size() == 2) {
    shape_ = {height_, width_};
  } else {
    shape_ = channels_last_ ? std::vector<std::size_t>{height_, width_, channels_}
                            : std::vector<std::size_t>{channels_, height_, width_};
  }
  scale_ = options.scale.value_or(is_float(dtype_) ? 1.0 / 255 : 1.0);
  mean_ = per_channel(options.mean, dtype_ == DType::i8 ? 128 : 0, channels_, "--mean");
  standard_ = per_channel(options.standard, 1, channels_, "--std");
  if (std::ranges::any_of(standard_,
                          [](double value) { return value == 0 || !std::isfinite(value); })) {
    fail(ErrorCode::usage, "--std: wanted numbers other than 0");
  }
  const auto finite = [](double value) { return std::isfinite(value); };
  if (!finite(scale_)) fail(ErrorCode::usage, "--scale {}: wanted a finite number", scale_);
  if (!std::ranges::all_of(mean_, finite))
    fail(ErrorCode::usage, "--mean {}: wanted finite numbers", fmt::join(mean_, ","));
}

std::size_t Preparation::bytes() const { return element_count(shape_, "input") * size_of(dtype_); }

ImageChanges& ImageChanges::operator+=(const ImageChanges& more) {
  resized += more.resized;
  squashed += more.squashed;
  turned_grey += more.turned_grey;
  return *this;
}

std::string describe(const ImageChanges& changes, std::size_t images) {
  std::vector<std::string> parts;
  if (changes.resized != 0)
    parts.push_back(fmt::format(
        "{} {} resized{}", changes.resized, changes.resized == 1 ? "was" : "were",
        changes.squashed == 0 ? ""
                              : fmt::format(", {} of them squashed (another ratio of height "
                                            "to width)",
                                            changes.squashed)));
  if (changes.turned_grey != 0)
    parts.push_back(fmt::format("{} {} turned grey", changes.turned_grey,
                                changes.turned_grey == 1 ? "was" : "were"));
  if (parts.empty()) return "";
  return fmt::format("of {} images {}", images, fmt::join(parts, ", and "));
}

ImageChanges Preparation::write(const Sample& sample, std::span<std::byte> out) const {
  OUBLI_ASSERT(out.size() == bytes());
  if (!image_) {
    if (sample.array.shape != shape_)
      fail(ErrorCode::bad_input, "{}: another shape than the first", sample.what);
    if (sample.array.dtype == dtype_) {
      std::memcpy(out.data(), sample.array.bytes.data(), out.size());
      return {};
    }
    std::vector<double> values(element_count(shape_, "input"));
    decode(sample.array.dtype, sample.array.bytes, values);
    store(dtype_, values, out);
    return {};
  }
  std::vector<float> resized;
  const bool same_size = sample.height == height_ && sample.width == width_;
  if (!same_size) resized = resize_image(sample, height_, width_);
  const std::size_t count = height_ * width_;
  const auto pixel = [&](std::size_t i, std::size_t c) {
    const std::size_t at = i * sample.channels + c;
    return same_size ? static_cast<double>(sample.pixels[at]) : static_cast<double>(resized[at]);
  };
  std::vector<double> values(count * channels_);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t c = 0; c < channels_; ++c) {
      double value = 0;
      if (channels_ == 1 && sample.channels == 3) {
        value = grey_of(pixel(i, 0), pixel(i, 1), pixel(i, 2));
      } else {
        value = pixel(i, sample.channels == 1 ? 0 : c);
      }
      value = (value * scale_ - mean_[c]) / standard_[c];
      values[channels_last_ ? i * channels_ + c : c * count + i] = value;
    }
  }
  store(dtype_, values, out);
  return {.resized = same_size ? 0U : 1U,
          .squashed = sample.height * width_ == sample.width * height_ ? 0U : 1U,
          .turned_grey = channels_ == 1 && sample.channels == 3 ? 1U : 0U};
}

std::string Preparation::describe() const {
  if (!image_) return fmt::format("numbers as they are, [{}]", fmt::join(shape_, ", "));
  std::string text = fmt::format("{} x {} {}, pixels x {:.6g}", height_, width_,
                                 channels_ == 1 ? "grey" : "colour", scale_);
  if (std::ranges::any_of(mean_, [](double v) { return v != 0; }))
    text += fmt::format(" - [{}]", fmt::join(mean_, ", "));
  if (std::ranges::any_of(standard_, [](double v) { return v != 1; }))
    text += fmt::format(" / [{}]", fmt::join(standard_, ", "));
  if (channels_ > 1) text += channels_last_ ? ", NHWC" : ", NCHW";
  return text;
}

PreparationOptions Preparation::as_used() const {
  if (!image_) return {};
  return {.scale = scale_,
          .mean = mean_,
          .standard = standard_,
          .channels_last = channels_last_,
          .colour = channels_ == 3,
          .size = std::pair(height_, width_)};
}

}  // namespace oubli
