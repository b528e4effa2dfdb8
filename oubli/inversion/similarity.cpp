#include "oubli/inversion/similarity.h"

#include <algorithm>
#include <cmath>

#include "oubli/base/error.h"

namespace oubli {
namespace {

std::vector<double> gaussian(std::size_t size, double deviation) {
  std::vector<double> weights(size);
  double sum = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const double d = static_cast<double>(i) - static_cast<double>(size - 1) / 2;
    sum += weights[i] = std::exp(-d * d / (2 * deviation * deviation));
  }
  for (double& w : weights) w /= sum;
  return weights;
}

// Means of value(pixel) over all windows inside the image; rows first, then columns.
template <typename Value>
std::vector<double> window_means(std::size_t height, std::size_t width,
                                 std::span<const double> down, std::span<const double> across,
                                 const Value& value) {
  const std::size_t out_width = width - across.size() + 1;
  const std::size_t out_height = height - down.size() + 1;
  std::vector<double> rows(height * out_width);
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < out_width; ++x)
      for (std::size_t i = 0; i < across.size(); ++i)
        rows[y * out_width + x] += across[i] * value(y * width + x + i);
  std::vector<double> out(out_height * out_width);
  for (std::size_t y = 0; y < out_height; ++y)
    for (std::size_t i = 0; i < down.size(); ++i)
      for (std::size_t x = 0; x < out_width; ++x)
        out[y * out_width + x] += down[i] * rows[(y + i) * out_width + x];
  return out;
}

}  // namespace

std::vector<float> min_max_scaled(std::span<const float> image) {
  const auto [low, high] = std::ranges::minmax(image);
  std::vector<float> out(image.size(), 0.5F);
  if (high > low)
    std::ranges::transform(image, out.begin(),
                           [low = low, high = high](float v) { return (v - low) / (high - low); });
  return out;
}

double correlation(std::span<const float> a, std::span<const float> b) {
  OUBLI_ASSERT(a.size() == b.size() && !a.empty());
  const auto n = static_cast<double>(a.size());
  double mean_a = 0;
  double mean_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    mean_a += static_cast<double>(a[i]) / n;
    mean_b += static_cast<double>(b[i]) / n;
  }
  double aa = 0;
  double bb = 0;
  double ab = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double da = static_cast<double>(a[i]) - mean_a;
    const double db = static_cast<double>(b[i]) - mean_b;
    aa += da * da;
    bb += db * db;
    ab += da * db;
  }
  // A constant image leaves rounding only.
  const double tiny = 1e-12 * n;
  return aa <= tiny || bb <= tiny ? 0 : std::clamp(ab / std::sqrt(aa * bb), -1.0, 1.0);
}

double ssim(std::span<const float> a, std::span<const float> b, std::size_t channels,
            std::size_t height, std::size_t width) {
  OUBLI_ASSERT(a.size() == b.size() && a.size() == channels * height * width && !a.empty());
  constexpr std::size_t kWindow = 11;
  constexpr double kDeviation = 1.5;
  constexpr double kC1 = 0.01 * 0.01;
  constexpr double kC2 = 0.03 * 0.03;
  const auto down = gaussian(std::min(kWindow, height), kDeviation);
  const auto across = gaussian(std::min(kWindow, width), kDeviation);
  double total = 0;
  for (std::size_t c = 0; c < channels; ++c) {
    const auto pa = a.subspan(c * height * width, height * width);
    const auto pb = b.subspan(c * height * width, height * width);
    const auto means = [&](const auto& value) {
      return window_means(height, width, down, across, value);
    };
    const auto at = [](std::span<const float> p, std::size_t i) {
      return static_cast<double>(p[i]);
    };
    const auto ma = means([&](std::size_t i) { return at(pa, i); });
    const auto mb = means([&](std::size_t i) { return at(pb, i); });
    const auto maa = means([&](std::size_t i) { return at(pa, i) * at(pa, i); });
    const auto mbb = means([&](std::size_t i) { return at(pb, i) * at(pb, i); });
    const auto mab = means([&](std::size_t i) { return at(pa, i) * at(pb, i); });
    double sum = 0;
    for (std::size_t i = 0; i < ma.size(); ++i) {
      const double va = maa[i] - ma[i] * ma[i];
      const double vb = mbb[i] - mb[i] * mb[i];
      const double vab = mab[i] - ma[i] * mb[i];
      sum += (2 * ma[i] * mb[i] + kC1) * (2 * vab + kC2) /
             ((ma[i] * ma[i] + mb[i] * mb[i] + kC1) * (va + vb + kC2));
    }
    total += sum / static_cast<double>(ma.size());
  }
  return total / static_cast<double>(channels);
}

}  // namespace oubli
