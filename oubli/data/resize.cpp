#include "oubli/data/resize.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "oubli/base/error.h"

namespace oubli {

namespace {

// For every target position the source positions that count, and how much: `count` of them, from
// begin[i] on.
struct Taps {
  std::size_t count = 0;
  std::vector<std::size_t> begin;
  std::vector<double> weights;  // targets x count
};

Taps taps_of(std::size_t from, std::size_t to) {
  const double ratio = static_cast<double>(from) / static_cast<double>(to);
  const double support = std::max(1.0, ratio);
  const auto low = [&](double centre) { return std::max(0.0, std::floor(centre - support + 0.5)); };
  const auto high = [&](double centre) {
    return std::min(static_cast<double>(from), std::floor(centre + support + 0.5));
  };
  const auto centre_of = [&](std::size_t i) { return (static_cast<double>(i) + 0.5) * ratio; };
  Taps taps{0, std::vector<std::size_t>(to), {}};
  for (std::size_t i = 0; i < to; ++i) {
    const double centre = centre_of(i);
    taps.count = std::max(taps.count, static_cast<std::size_t>(high(centre) - low(centre)));
  }
  taps.weights.resize(to * taps.count);
  for (std::size_t i = 0; i < to; ++i) {
    const double centre = centre_of(i);
    const auto first = static_cast<std::size_t>(low(centre));
    // Near the end fewer count: then the first ones have no weight.
    taps.begin[i] = std::min(first, from - taps.count);
    const std::span<double> weights = std::span(taps.weights).subspan(i * taps.count, taps.count);
    double sum = 0;
    for (double j = low(centre); j < high(centre); ++j) {
      const double weight = std::max(0.0, 1 - std::abs((j + 0.5 - centre) / support));
      weights[static_cast<std::size_t>(j) - taps.begin[i]] = weight;
      sum += weight;
    }
    for (double& weight : weights) weight /= sum;
  }
  return taps;
}

// One row of pixels to one of as many targets as there are taps.
template <std::size_t channels>
void resize_row(const Taps& taps, const double* row, float* out) {
  const double* weights = taps.weights.data();
  for (const std::size_t begin : taps.begin) {
    double sums[channels] = {};
    const double* pixel = row + begin * channels;
    for (std::size_t k = 0; k < taps.count; ++k)
      for (std::size_t c = 0; c < channels; ++c) sums[c] += weights[k] * pixel[k * channels + c];
    for (std::size_t c = 0; c < channels; ++c) *out++ = static_cast<float>(sums[c]);
    weights += taps.count;
  }
}

}  // namespace

void resize_rows(const Sample& sample, std::size_t height, std::size_t width,
                 const std::function<void(std::size_t y, std::span<const float> row)>& take) {
  OUBLI_ASSERT(sample.channels == 1 || sample.channels == 3);
  const std::size_t line = width * sample.channels, stored = sample.width * sample.channels;
  const Taps across = taps_of(sample.width, width), down = taps_of(sample.height, height);
  std::vector<double> row(stored), sums(line);
  std::vector<float> narrowed(down.count * line), out(line);  // the last rows of the sample
  std::size_t done = 0;                                       // of its rows
  const auto narrow = [&] {
    std::copy_n(sample.pixels.begin() + static_cast<std::ptrdiff_t>(done * stored), stored,
                row.begin());
    float* const to = narrowed.data() + done % down.count * line;
    (sample.channels == 1 ? resize_row<1> : resize_row<3>)(across, row.data(), to);
    ++done;
  };
  for (std::size_t y = 0; y < height; ++y) {
    while (done < down.begin[y] + down.count) narrow();
    std::ranges::fill(sums, 0.0);
    for (std::size_t k = 0; k < down.count; ++k) {  // row by row: vector code
      const double weight = down.weights[y * down.count + k];
      const float* const from = narrowed.data() + (down.begin[y] + k) % down.count * line;
      for (std::size_t i = 0; i < line; ++i) sums[i] += weight * static_cast<double>(from[i]);
    }
    std::ranges::transform(sums, out.begin(), [](double sum) { return static_cast<float>(sum); });
    take(y, out);
  }
}

std::vector<float> resize_image(const Sample& sample, std::size_t height, std::size_t width) {
  std::vector<float> image;
  image.reserve(height * width * sample.channels);
  resize_rows(sample, height, width, [&](std::size_t, std::span<const float> row) {
    image.insert(image.end(), row.begin(), row.end());
  });
  return image;
}

}  // namespace oubli
