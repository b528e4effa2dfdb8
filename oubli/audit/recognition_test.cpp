#include "oubli/audit/recognition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "oubli/base/random.h"
#include "oubli/filtration/filtration.h"

namespace oubli {
namespace {

TEST(AreaUnderCurve, EqualsCountingPairs) {
  RandomStream random(1, 0);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<double> scores;
    std::vector<std::uint8_t> positive;
    for (int i = 0; i < 60; ++i) {
      scores.push_back(static_cast<double>(random.below(15)));  // many ties
      positive.push_back(static_cast<std::uint8_t>(random.below(3) == 0));
    }
    double wins = 0, pairs = 0;
    for (std::size_t i = 0; i < 60; ++i)
      for (std::size_t j = 0; j < 60; ++j) {
        if (positive[i] == 0 || positive[j] != 0) continue;
        ++pairs;
        wins += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
      }
    EXPECT_NEAR(area_under_curve(scores, positive), wins / pairs, 1e-12);
  }
  EXPECT_TRUE(
      std::isnan(area_under_curve(std::vector<double>{1, 2}, std::vector<std::uint8_t>{1, 1})));
  // Infinite scores have an order, NaN has none (and went round in circles once).
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(area_under_curve(std::vector<double>{infinity, -infinity, 0},
                             std::vector<std::uint8_t>{1, 0, 0}),
            1);
  EXPECT_TRUE(std::isnan(area_under_curve(std::vector<double>{1, std::nan(""), 2},
                                          std::vector<std::uint8_t>{1, 0, 1})));
}

// Five classes of logits, 60 samples each; logit j is about 6 on class j and 0 elsewhere, and all
// five sum to zero, as a sum-zero head makes them.
struct Logits {
  Matrix<float> values{300, 5};
  std::vector<std::uint32_t> labels;
};

Logits sum_zero_logits() {
  RandomStream random(2, 0);
  Logits logits;
  for (std::size_t n = 0; n < 300; ++n) {
    logits.labels.push_back(static_cast<std::uint32_t>(n % 5));
    double sum = 0;
    for (std::size_t j = 0; j < 5; ++j) {
      logits.values(n, j) = static_cast<float>((n % 5 == j ? 6 : 0) + random.normal());
      sum += double{logits.values(n, j)};
    }
    for (std::size_t j = 0; j < 5; ++j) logits.values(n, j) -= static_cast<float>(sum / 5);
  }
  return logits;
}

TEST(Recognition, GhostLogitShowsAfterNaiveAndNotAfterCentring) {
  const Logits logits = sum_zero_logits();
  const std::vector<std::size_t> forget{2};
  const auto naive = naive_filter(split_for_deletion(5, forget)).apply(logits.values.view());
  const auto centred = centre_filter(split_for_deletion(5, forget)).apply(logits.values.view());
  const Recognition after_naive = measure_recognition(naive, logits.labels, forget).at(0);
  const Recognition after_centre = measure_recognition(centred, logits.labels, forget).at(0);
  EXPECT_GT(after_naive.ghost, 0.99);
  EXPECT_EQ(after_naive.samples, 60u);
  // The mean is zero up to float rounding: within 5 standard errors sqrt(1/12 (1/60 + 1/240)) of
  // one half (chance of a false alarm below 1e-6, for a seed that is fixed anyway).
  EXPECT_LT(after_centre.ghost, 0.5 + 5 * std::sqrt((1 / 60.0 + 1 / 240.0) / 12));
  ASSERT_TRUE(after_naive.readout.has_value());
  EXPECT_GT(*after_naive.readout, 0.99);
}

TEST(Recognition, NoiseTellsNothing) {
  RandomStream random(3, 0);
  Matrix<float> noise(2000, 4);
  std::vector<std::uint32_t> labels;
  for (float& value : noise.flat()) value = static_cast<float>(random.normal());
  for (std::uint32_t n = 0; n < 2000; ++n) labels.push_back(n % 5);
  const Recognition leak = measure_recognition(noise, labels, std::vector<std::size_t>{0}).at(0);
  const double five_sigma = 5 * std::sqrt((1 / 400.0 + 1 / 1600.0) / 12);
  EXPECT_LT(leak.ghost, 0.5 + five_sigma);
  EXPECT_LT(*leak.readout, 0.5 + five_sigma);
}

// The mean over 20 models of noise: standard error sqrt((1/40 + 1/160) / 12 / 20) = 0.0114 of one
// half; outside of 5 of them with probability 6e-7. Folded values are never below one half; all 20
// on one side of it have a chance of 2^-19.
TEST(Recognition, ProbesOfNoiseAreOneHalfOnAverage) {
  std::vector<std::uint32_t> labels;
  for (std::uint32_t n = 0; n < 200; ++n) labels.push_back(n % 5);
  double mean = 0, least = 1, most = 0;
  for (std::uint64_t model = 0; model < 20; ++model) {
    RandomStream random(4, model);
    Matrix<float> noise(200, 8);
    for (float& value : noise.flat()) value = static_cast<float>(random.normal());
    const double area = probe_area(noise, labels, 2).value();
    mean += area / 20;
    least = std::min(least, area);
    most = std::max(most, area);
    const Recognition leak = measure_recognition(noise, labels, std::vector<std::size_t>{2}).at(0);
    EXPECT_EQ(*leak.readout, std::max(area, 1 - area));
  }
  EXPECT_NEAR(mean, 0.5, 5 * 0.0114);
  EXPECT_LT(least, 0.5);
  EXPECT_GT(most, 0.5);
  labels[2] = 0;  // 39 of the class, and then too few
  EXPECT_TRUE(probe_area(Matrix<float>(200, 8), labels, 2).has_value());
  for (std::size_t n = 7; n < 110; n += 5) labels[n] = 0;
  EXPECT_FALSE(probe_area(Matrix<float>(200, 8), labels, 2).has_value());
}

TEST(Recognition, FewSamplesGiveNoReadoutAndAbsentClassesNothing) {
  const Logits logits = sum_zero_logits();
  const auto few = logits.values.view().middle_rows(0, 90);  // 18 of each class
  const auto labels = std::span(logits.labels).first(90);
  const std::vector<std::size_t> forget{1, 7};
  const auto leaks = measure_recognition(few, labels, forget);
  ASSERT_EQ(leaks.size(), 1u);
  EXPECT_FALSE(leaks[0].readout.has_value());
  // Constant logits: every score ties, so one half exactly.
  const Matrix<float> constant(90, 4);
  EXPECT_EQ(measure_recognition(constant, labels, forget).at(0).ghost, 0.5);
}

TEST(Recognition, AreasThatAreCloseAreTheSameToPeople) {
  EXPECT_EQ(compare_areas(0.705, 0.7), Compared::same);
  EXPECT_EQ(compare_areas(0.72, 0.7), Compared::more);
  EXPECT_EQ(compare_areas(0.68, 0.7), Compared::less);
  EXPECT_EQ(how_often(0.5), "hardly");
  EXPECT_EQ(how_often(0.75), "often");
  EXPECT_EQ(how_often(1), "nearly always");
}

}  // namespace
}  // namespace oubli
