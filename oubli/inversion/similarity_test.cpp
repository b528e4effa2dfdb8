#include "oubli/inversion/similarity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "oubli/base/random.h"

namespace oubli {
namespace {

std::vector<float> noise(std::size_t count, std::uint64_t seed) {
  RandomStream random(seed, task_id("noise"));
  std::vector<float> out(count);
  for (float& v : out) v = static_cast<float>(random.uniform());
  return out;
}

// SSIM by its definition: for every window, weighted means and central moments.
double ssim_brute_force(const std::vector<float>& a, const std::vector<float>& b, int height,
                        int width) {
  double weights[11][11];
  double sum = 0;
  for (int i = 0; i < 11; ++i)
    for (int j = 0; j < 11; ++j)
      sum += weights[i][j] = std::exp(-((i - 5) * (i - 5) + (j - 5) * (j - 5)) / (2 * 1.5 * 1.5));
  double total = 0;
  int windows = 0;
  for (int y = 0; y + 11 <= height; ++y) {
    for (int x = 0; x + 11 <= width; ++x) {
      const auto mean = [&](const auto& value) {
        double m = 0;
        for (int i = 0; i < 11; ++i)
          for (int j = 0; j < 11; ++j)
            m += weights[i][j] / sum * value(static_cast<std::size_t>((y + i) * width + x + j));
        return m;
      };
      const double ma = mean([&](std::size_t i) { return double{a[i]}; });
      const double mb = mean([&](std::size_t i) { return double{b[i]}; });
      const double va =
          mean([&](std::size_t i) { return (double{a[i]} - ma) * (double{a[i]} - ma); });
      const double vb =
          mean([&](std::size_t i) { return (double{b[i]} - mb) * (double{b[i]} - mb); });
      const double vab =
          mean([&](std::size_t i) { return (double{a[i]} - ma) * (double{b[i]} - mb); });
      total +=
          (2 * ma * mb + 1e-4) * (2 * vab + 9e-4) / ((ma * ma + mb * mb + 1e-4) * (va + vb + 9e-4));
      ++windows;
    }
  }
  return total / windows;
}

TEST(Ssim, EqualsItsDefinition) {
  const auto a = noise(17 * 14, 1);
  auto b = noise(17 * 14, 2);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = 0.5F * b[i] + 0.5F * a[i];
  EXPECT_NEAR(ssim(a, b, 1, 17, 14), ssim_brute_force(a, b, 17, 14), 1e-12);
  // Two channels: the mean of the two.
  auto aa = a;
  aa.insert(aa.end(), a.begin(), a.end());
  auto bb = b;
  bb.insert(bb.end(), a.begin(), a.end());
  EXPECT_NEAR(ssim(aa, bb, 2, 17, 14), (ssim_brute_force(a, b, 17, 14) + 1) / 2, 1e-12);
}

TEST(Ssim, IsOneForEqualImagesOnlyAndDefinedForSmallAndConstantOnes) {
  const auto a = noise(28 * 28, 3);
  EXPECT_DOUBLE_EQ(ssim(a, a, 1, 28, 28), 1);
  EXPECT_LT(ssim(a, noise(28 * 28, 4), 1, 28, 28), 0.2);
  EXPECT_DOUBLE_EQ(ssim(a, a, 1, 4, 196), 1);
  const std::vector<float> grey(12 * 12, 0.5F);
  EXPECT_NEAR(ssim(grey, grey, 1, 12, 12), 1, 1e-12);
}

TEST(Correlation, IsInvariantToBrightnessAndContrast) {
  const auto a = noise(100, 5);
  std::vector<float> brighter(a), negative(a);
  for (float& v : brighter) v = 0.2F + 0.5F * v;
  for (float& v : negative) v = 1 - v;
  EXPECT_NEAR(correlation(a, brighter), 1, 1e-6);
  EXPECT_NEAR(correlation(a, negative), -1, 1e-6);
  EXPECT_EQ(correlation(a, std::vector<float>(100, 0.3F)), 0);
  // Independent noise: standard error 1/sqrt(10,000); the bound is 6 of them, missed once in 5e8.
  EXPECT_NEAR(correlation(noise(10000, 6), noise(10000, 7)), 0, 0.06);
}

TEST(MinMaxScaled, SpansZeroToOne) {
  EXPECT_THAT(min_max_scaled(std::vector<float>{0.25F, 0.5F, 0.75F}),
              ::testing::ElementsAre(0.0F, 0.5F, 1.0F));
  EXPECT_THAT(min_max_scaled(std::vector<float>{0.7F, 0.7F}), ::testing::ElementsAre(0.5F, 0.5F));
}

}  // namespace
}  // namespace oubli
