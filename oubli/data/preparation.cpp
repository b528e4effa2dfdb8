#include "oubli/data/preparation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "oubli/base/error.h"
#include "oubli/data/resize.h"

namespace oubli {

namespace {

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

template <typename Pixel, typename Put>
void Preparation::put_row(std::size_t y, std::span<const Pixel> pixels, const Put& put) const {
  const std::size_t stored = pixels.size() / width_;
  for (std::size_t c = 0; c < channels_; ++c) {
    const std::size_t first =
        channels_last_ ? y * width_ * channels_ + c : (c * height_ + y) * width_;
    const std::size_t step = channels_last_ ? channels_ : 1;
    const Pixel* const from = pixels.data() + (stored == 1 ? 0 : c);
    const double mean = mean_[c], standard = standard_[c];
    for (std::size_t x = 0; x < width_; ++x) {
      const Pixel* const at = from + x * stored;
      auto value = static_cast<double>(*at);
      if (stored == 3 && channels_ == 1)
        value = grey_of(value, static_cast<double>(at[1]), static_cast<double>(at[2]));
      put(first + x * step, (value * scale_ - mean) / standard);
    }
  }
}

template <typename Put>
void Preparation::put_image(const Sample& sample, const Put& put) const {
  if (sample.height != height_ || sample.width != width_) {
    resize_rows(sample, height_, width_,
                [&](std::size_t y, std::span<const float> row) { put_row(y, row, put); });
    return;
  }
  const std::size_t line = width_ * sample.channels;
  for (std::size_t y = 0; y < height_; ++y)
    put_row(y, std::span(sample.pixels).subspan(y * line, line), put);
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
  if (dtype_ == DType::f32) {
    put_image(sample, [to = out.data()](std::size_t at, double value) {
      const auto number = static_cast<float>(value);
      std::memcpy(to + at * sizeof number, &number, sizeof number);
    });
  } else {
    std::vector<double> values(element_count(shape_, "input"));
    put_image(sample, [&](std::size_t at, double value) { values[at] = value; });
    store(dtype_, values, out);
  }
  const bool same_size = sample.height == height_ && sample.width == width_;
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
