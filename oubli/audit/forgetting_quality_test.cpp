#include "oubli/audit/forgetting_quality.h"

#include <gtest/gtest.h>

#include <cmath>

#include "oubli/array/array_file.h"
#include "oubli/array/npy.h"
#include "oubli/audit/feature_figures.h"
#include "oubli/audit/iam.h"
#include "oubli/audit/recognition.h"
#include "oubli/base/random.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

constexpr double kCap = 6;

// Every single and double threshold, either side taken for the first population.
double brute_force(const std::vector<double>& first, const std::vector<double>& second) {
  std::vector<double> cuts{-1e9, 1e9};
  for (const auto* values : {&first, &second})
    for (const double value : *values) cuts.insert(cuts.end(), {value - 1e-7, value + 1e-7});
  double best = 0;
  for (const double low : cuts) {
    for (const double high : cuts) {
      for (const bool inside : {true, false}) {
        double fn = 0, fp = 0;
        const auto says_first = [&](double v) { return (v > low && v < high) == inside; };
        for (const double v : first) fn += says_first(v) ? 0 : 1;
        for (const double v : second) fp += says_first(v) ? 1 : 0;
        fn /= static_cast<double>(first.size());
        fp /= static_cast<double>(second.size());
        if (fn == 0 && fp == 0) return kCap;
        if (fn == 0 || fp == 0) continue;
        for (const auto& [a, b] : {std::pair(fp, fn), std::pair(fn, fp)})
          if (1 - 1e-5 - a > 0) best = std::max(best, std::log((1 - 1e-5 - a) / b));
      }
    }
  }
  return std::min(best, kCap);
}

TEST(ForgettingQuality, EpsilonIsTheBestOfAllThresholds) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    RandomStream random(seed, task_id("quality"));
    std::vector<double> first, second;
    const double step = seed % 2 == 0 ? 0.5 : 1e-3;  // with and without ties
    for (std::size_t i = 0; i < 7 + seed % 3; ++i)
      first.push_back(step *
                      std::round((random.normal() + 0.1 * static_cast<double>(seed)) / step));
    for (std::size_t i = 0; i < 9; ++i)
      second.push_back(step * std::round(2 * random.normal() / step));
    EXPECT_NEAR(image_epsilon(first, second), brute_force(first, second), 1e-12) << seed;
  }
}

// Not every pair of thresholds is tried then: nothing that is not there is proved, and little lost.
TEST(ForgettingQuality, ManyNetworksTakeSomeThresholds) {
  for (std::uint64_t seed = 0; seed < 1; ++seed) {
    RandomStream random(seed, task_id("thresholds"));
    std::vector<double> first, second;
    for (std::size_t i = 0; i < 258; ++i) {
      first.push_back(random.normal() + 0.5 * static_cast<double>(seed));
      second.push_back((1 + 0.5 * static_cast<double>(seed)) * random.normal());
    }
    const double exact = brute_force(first, second), found = image_epsilon(first, second);
    EXPECT_LE(found, exact + 1e-12) << seed;
    EXPECT_GE(found, exact - 0.5) << seed;  // what halves a score
  }
  // Where the best threshold stands beside the last point of one population, in the middle of both:
  // ln(0.501 / 0.001) is above the cap.
  std::vector<double> low, high, inside;
  for (int i = 0; i < 1000; ++i) {
    low.push_back(i);
    high.push_back(i + 500.5);
    inside.push_back(499.1 + 0.0001 * i);
  }
  EXPECT_EQ(image_epsilon(low, high), kCap);
  EXPECT_EQ(image_epsilon(inside, low), kCap);  // nothing of one between any two of the other
}

TEST(ForgettingQuality, ScoresHalveWithEveryHalfOfEpsilon) {
  EXPECT_EQ(image_quality(0), 1);
  EXPECT_EQ(image_quality(0.49), 1);
  EXPECT_EQ(image_quality(0.5), 0.5);
  EXPECT_EQ(image_quality(1.7), 0.125);
  EXPECT_EQ(image_quality(kCap), std::pow(2, -12));
  EXPECT_EQ(image_epsilon(std::vector{1.0, 2.0}, std::vector{3.0, 4.0}), kCap);
  // Split in the middle: FPR = FNR = 1/4 for single thresholds, epsilon ln(3 - 4e-5).
  EXPECT_NEAR(image_epsilon(std::vector{0.0, 0.0, 0.0, 1.0}, std::vector{0.0, 1.0, 1.0, 1.0}),
              std::log((0.75 - 1e-5) / 0.25), 1e-12);
}

TEST(ForgettingQuality, JudgesTheRetrainedNetworksCommonestAnswer) {
  Matrix<float> first(2, 3), second(3, 3);
  second(0, 1) = 2;
  second(1, 1) = 3;
  second(2, 0) = 9;
  first(0, 0) = 5;
  const OddsOfImage odds = log_odds(first, second);
  const double p = std::exp(0.0) / (std::exp(5.0) + 2);  // softmax of (5, 0, 0) at 1
  EXPECT_NEAR(odds.first[0], std::log(p / (1 - p)), 1e-12);
  EXPECT_NEAR(odds.first[1], std::log(1.0 / 2), 1e-12);
  EXPECT_NEAR(odds.second[0], 2 - std::log(2.0), 1e-12);
}

TEST(InterpolatedMeasure, AgreesWithSciPy) {
  if (std::system("/usr/bin/python3 -c 'import scipy' 2>/dev/null") != 0)
    GTEST_SKIP() << "python3-scipy is not installed";
  RandomStream random(3, task_id("iam"));
  Matrix<double> signals(3, 40);  // unlearned, original, retrained
  for (double& value : signals.flat()) value = 2 * random.normal();
  const testing::TempFolder folder;
  write_npy(folder / "signals.npy",
            {DType::f64, {3, 40}, std::as_bytes(signals.flat()), "signals"});
  testing::run_python(folder, R"(
import numpy as np
from scipy.stats import gumbel_r
unlearned, original, retrained = np.load("signals.npy")
sign = np.where(original >= retrained, 1, -1)
alpha = np.linspace(0, 1, 100)
place = sign * (retrained + alpha[:, None] * (original - retrained))
scale = np.sqrt(6) * place.std(axis=1, keepdims=True) / np.pi
cdf = gumbel_r.cdf(sign * unlearned, place - np.euler_gamma * scale, scale)
np.save("out.npy", (alpha[1:, None] * cdf[:-1]).sum(0) / alpha[1:].sum())
)");
  const auto theirs = to_vector(load_array((folder / "out.npy").string()));
  const auto ours = interpolated_scores(signals.row(0), signals.row(1), signals.row(2));
  for (std::size_t i = 0; i < theirs.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-12);
}

TEST(InterpolatedMeasure, GrowsOnTheWayFromRetrainedToOriginal) {
  RandomStream random(4, task_id("iam"));
  Matrix<float> retrained(60, 4), original(60, 4), between(60, 4);
  for (float& value : retrained.flat()) value = static_cast<float>(2 * random.normal());
  for (float& value : original.flat()) value = static_cast<float>(2 * random.normal());
  double last = -1;
  for (const float way : {0.0F, 0.25F, 0.5F, 0.75F, 1.0F}) {
    for (std::size_t i = 0; i < between.flat().size(); ++i)
      between.flat()[i] = (1 - way) * retrained.flat()[i] + way * original.flat()[i];
    const double score = interpolated_measure(between, original, retrained);
    EXPECT_GT(score, last) << way;
    EXPECT_LT(score, 1);
    last = score;
  }
}

TEST(FeatureFigures, CkaAgreesWithNumPy) {
  RandomStream random(5, task_id("cka"));
  Matrix<float> x(50, 7), y(50, 4);
  for (float& value : x.flat()) value = static_cast<float>(random.normal() + 3);
  for (std::size_t i = 0; i < 50; ++i)
    for (std::size_t j = 0; j < 4; ++j)
      y(i, j) = x(i, j) * x(i, j + 1) + static_cast<float>(random.normal());
  const testing::TempFolder folder;
  write_npy(folder / "x.npy", {DType::f32, {50, 7}, std::as_bytes(x.flat()), "x"});
  write_npy(folder / "y.npy", {DType::f32, {50, 4}, std::as_bytes(y.flat()), "y"});
  testing::run_python(folder, R"(
import numpy as np
x, y = (np.load(name).astype(float) for name in ("x.npy", "y.npy"))
x, y = x - x.mean(0), y - y.mean(0)
# By Gram matrices of samples, as the definition has it.
k, l = x @ x.T, y @ y.T
np.save("out.npy", [(k * l).sum() / np.sqrt((k * k).sum() * (l * l).sum())])
)");
  EXPECT_NEAR(*linear_cka(x, y), to_vector(load_array((folder / "out.npy").string()))[0], 1e-10);
  Matrix<float> moved(50, 7);  // another order of the features, twice as large, shifted
  for (std::size_t i = 0; i < 50; ++i)
    for (std::size_t j = 0; j < 7; ++j) moved(i, j) = 2 * x(i, 6 - j) - 1;
  EXPECT_NEAR(*linear_cka(x, moved), 1, 1e-6);
  EXPECT_FALSE(linear_cka(x, Matrix<float>(50, 3)));
}

// Classes at the corners of a simplex in noise: the best rule recalls a class with probability
// P(its own coordinate is the largest); far apart that is 1, and without a class's own corner it is
// nearly 0 for noise that makes the origin lose against the corners.
TEST(FeatureFigures, ProbeRecallsWhatFeaturesShow) {
  constexpr std::size_t kSamples = 4000, kClasses = 4;
  RandomStream random(6, task_id("probe"));
  std::vector<std::uint32_t> labels(kSamples);
  Matrix<float> clear(kSamples, 6), noise(kSamples, 6);
  for (std::size_t i = 0; i < kSamples; ++i) {
    labels[i] = static_cast<std::uint32_t>(i % kClasses);
    for (std::size_t j = 0; j < 6; ++j) {
      clear(i, j) = static_cast<float>(0.05 * random.normal() + (labels[i] == j ? 1 : 0));
      noise(i, j) = static_cast<float>(random.normal());
    }
  }
  EXPECT_EQ(*probe_recall(clear, labels, kClasses, 2, 0), 1);
  // Nothing to see: 1/4 of the labels are guessed right, give or take the probe's preferences.
  EXPECT_NEAR(*probe_recall(noise, labels, kClasses, 2, 0), 0.25, 0.15);
  EXPECT_FALSE(probe_recall(clear, std::vector<std::uint32_t>(kSamples, 2), kClasses, 2, 0));
}

// More features than samples, or fewer: the same figures by another way. Two columns of zeros lead
// from one to the other; they make the ridge smaller by 3 %, and nothing else.
TEST(FeatureFigures, ManyFeaturesGiveWhatFewGive) {
  constexpr std::size_t kSamples = 120, kNarrow = 59;  // 60 samples to fit on
  RandomStream random(8, task_id("wide"));
  std::vector<std::uint32_t> labels(kSamples);
  Matrix<float> narrow(kSamples, kNarrow), wide(kSamples, kNarrow + 2);
  for (std::size_t i = 0; i < kSamples; ++i) {
    labels[i] = static_cast<std::uint32_t>(i % 3);
    for (std::size_t j = 0; j < kNarrow; ++j)
      wide(i, j) = narrow(i, j) =
          static_cast<float>(random.normal() + (labels[i] == j % 3 ? 2 : 0));
  }
  for (const std::size_t c : {0U, 1U, 2U}) {
    const double area = *probe_area(narrow, labels, c),
                 recall = *probe_recall(narrow, labels, 3, c, 0);
    EXPECT_GT(area, 0.7);
    EXPECT_NEAR(*probe_area(wide, labels, c), area, 0.02);
    EXPECT_NEAR(*probe_recall(wide, labels, 3, c, 0), recall, 0.051);  // of 40: two samples
  }
  // Beside itself more than the samples, columns repeated: CKA does not see it.
  Matrix<float> squares(kSamples, kNarrow), thrice(kSamples, 3 * kNarrow);
  Matrix<float> squares_thrice(kSamples, 3 * kNarrow);
  for (std::size_t i = 0; i < kSamples; ++i)
    for (std::size_t j = 0; j < 3 * kNarrow; ++j) {
      thrice(i, j) = narrow(i, j % kNarrow);
      squares(i, j % kNarrow) = squares_thrice(i, j) = thrice(i, j) * thrice(i, j);
    }
  EXPECT_NEAR(*linear_cka(thrice, squares_thrice), *linear_cka(narrow, squares), 1e-12);
  EXPECT_NEAR(*linear_cka(thrice, thrice), 1, 1e-12);
}

}  // namespace
}  // namespace oubli
