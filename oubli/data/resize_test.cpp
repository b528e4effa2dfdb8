#include "oubli/data/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "oubli/base/random.h"

namespace oubli {
namespace {

Sample noise(std::size_t height, std::size_t width, std::size_t channels) {
  Sample sample;
  sample.image = true;
  sample.height = height;
  sample.width = width;
  sample.channels = channels;
  RandomStream random(1, task_id("resize test", {height, width, channels}));
  for (std::size_t i = 0; i < height * width * channels; ++i)
    sample.pixels.push_back(static_cast<std::uint8_t>(random.below(256)));
  return sample;
}

// How much source position j counts for target i: a triangle about the target's centre, as wide as
// a target is in source positions and at least one of these.
double weight(std::size_t j, std::size_t i, std::size_t from, std::size_t to) {
  const double ratio = static_cast<double>(from) / static_cast<double>(to);
  const double centre = (static_cast<double>(i) + 0.5) * ratio;
  return std::max(0.0, 1 - std::abs(static_cast<double>(j) + 0.5 - centre) / std::max(1.0, ratio));
}

double brute_force(const Sample& sample, std::size_t height, std::size_t width, std::size_t y,
                   std::size_t x, std::size_t c) {
  double sum = 0, weights = 0;
  for (std::size_t i = 0; i < sample.height; ++i)
    for (std::size_t j = 0; j < sample.width; ++j) {
      const double w = weight(i, y, sample.height, height) * weight(j, x, sample.width, width);
      sum += w * sample.pixels[(i * sample.width + j) * sample.channels + c];
      weights += w;
    }
  return sum / weights;
}

TEST(Resize, IsTheTriangleFilterAtEverySize) {
  for (const auto& [height, width] : {std::pair(1, 1), {1, 7}, {6, 5}, {13, 9}, {32, 3}})
    for (const std::size_t channels : {1U, 3U}) {
      const Sample sample =
          noise(static_cast<std::size_t>(height), static_cast<std::size_t>(width), channels);
      for (const std::size_t to_height : {1U, 2U, 5U, 12U, 31U, 40U})
        for (const std::size_t to_width : {1U, 4U, 9U, 16U}) {
          const std::vector<float> made = resize_image(sample, to_height, to_width);
          ASSERT_EQ(made.size(), to_height * to_width * channels);
          std::size_t at = 0;
          for (std::size_t y = 0; y < to_height; ++y)
            for (std::size_t x = 0; x < to_width; ++x)
              for (std::size_t c = 0; c < channels; ++c)
                // Two roundings to float, of numbers up to 255.
                ASSERT_NEAR(made[at++], brute_force(sample, to_height, to_width, y, x, c), 4e-5)
                    << height << " x " << width << " to " << to_height << " x " << to_width;
        }
    }
}

TEST(Resize, RowsComeInOrder) {
  const Sample sample = noise(17, 11, 3);
  std::vector<float> rows;
  std::size_t next = 0;
  resize_rows(sample, 7, 5, [&](std::size_t y, std::span<const float> row) {
    EXPECT_EQ(y, next++);
    rows.insert(rows.end(), row.begin(), row.end());
  });
  EXPECT_EQ(next, 7U);
  EXPECT_EQ(rows, resize_image(sample, 7, 5));
}

}  // namespace
}  // namespace oubli
