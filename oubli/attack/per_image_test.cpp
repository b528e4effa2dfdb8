#include "oubli/attack/per_image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "oubli/attack/per_image_fit.h"
#include "oubli/base/error.h"
#include "oubli/base/random.h"

namespace oubli {
namespace {

double normal_cdf(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

// Two made-up populations: answer(side, image, column, noise) with independent standard normal
// noise per network, image and column.
class Networks {
 public:
  using Answer =
      std::function<double(std::size_t side, std::size_t image, std::size_t column, double noise)>;
  Networks(std::size_t train, std::size_t test, std::size_t images, std::size_t columns,
           std::uint64_t seed, const Answer& answer)
      : images_(images) {
    for (std::size_t n = 0; n < train + test; ++n)
      (n < train ? train_ : test_).push_back(static_cast<std::uint32_t>(n));
    for (std::size_t side = 0; side < 2; ++side) {
      rows_[side] = Matrix<float>((train + test) * images, columns);
      RandomStream random(seed, task_id("networks", {side}));
      for (std::size_t row = 0; row < rows_[side].rows(); ++row)
        for (std::size_t c = 0; c < columns; ++c)
          rows_[side](row, c) = static_cast<float>(answer(side, row % images, c, random.normal()));
    }
  }
  [[nodiscard]] PerImageInput input() const {
    return {stacked_answers({rows_[0], rows_[1]}, images_),
            images_,
            rows_[0].cols(),
            {train_, train_},
            {test_, test_}};
  }
  Matrix<float>& rows(std::size_t side) { return rows_[side]; }

 private:
  std::size_t images_;
  std::array<Matrix<float>, 2> rows_;
  std::vector<std::uint32_t> train_, test_;
};

// What one observer gets.
NumberScores score_numbers(const PerImageInput& input, bool centred = false,
                           std::optional<double> shrinkage = {}) {
  PerImageFound found = score_images(
      input,
      {.logits = !centred, .probabilities = centred, .labels = false, .shrinkage = shrinkage});
  return centred ? std::move(found.probabilities) : std::move(found.logits);
}

PerImageScores score_labels(const PerImageInput& input) {
  return score_images(input, {.logits = false, .probabilities = false}).labels;
}

// A number that is the image's own, the same for every network.
double own_number(std::size_t image, std::size_t column, std::uint64_t what) {
  return RandomStream(what, task_id("own", {image, column})).normal();
}

// 2 (accuracy - 1/2), ties half.
double advantage(const std::array<Matrix<float>, 2>& scores, std::size_t answers = 1) {
  double right = 0;
  for (std::size_t side = 0; side < 2; ++side) {
    const Matrix<double> sums = AnswerGroups(scores[side].cols(), 7).sums(scores[side], answers);
    for (const double sum : sums.flat()) {
      const double share = sum > 0 ? 1 : sum < 0 ? 0 : 0.5;
      right += (side == 0 ? share : 1 - share) / static_cast<double>(sums.flat().size());
    }
  }
  return right - 1;
}

// Four standard errors of an advantage from `answers` independent answers of either population: a
// true value is missed with probability 6e-5.
double tolerance(std::size_t answers) { return 4 * std::sqrt(0.5 / static_cast<double>(answers)); }

double mean_log_loss(const std::array<Matrix<float>, 2>& scores) {
  double sum = 0;
  for (std::size_t side = 0; side < 2; ++side)
    for (const float score : scores[side].flat())
      sum += std::log1p(
          std::exp(side == 0 ? -static_cast<double>(score) : static_cast<double>(score)));
  return sum / static_cast<double>(scores[0].flat().size() + scores[1].flat().size());
}

// Equation by equation, in double.
TEST(PerImage, GivesTheLogLikelihoodRatiosThatItIsDefinedAs) {
  constexpr std::size_t kTrain = 6, kTest = 3, kImages = 70, kColumns = 4;
  Networks networks(kTrain, kTest, kImages, kColumns, 1,
                    [](std::size_t side, std::size_t image, std::size_t c, double noise) {
                      return own_number(image, c, 1) + 0.3 * static_cast<double>(side) +
                             noise * (0.5 + 0.2 * static_cast<double>(c));
                    });
  const double share = 0.5;
  for (const bool centred : {false, true}) {
    const NumberScores ours = score_numbers(networks.input(), centred, share);
    const auto value = [&](std::size_t side, std::size_t model, std::size_t image, std::size_t c) {
      const auto row = networks.rows(side).view().row(model * kImages + image);
      double mean = 0;
      for (const float v : row) mean += static_cast<double>(v) / kColumns;
      return static_cast<double>(row[c]) - (centred ? mean : 0);
    };
    Matrix<double> mean[2], squares[2];
    for (std::size_t side = 0; side < 2; ++side) {
      mean[side] = squares[side] = Matrix<double>(kImages, kColumns);
      for (std::size_t i = 0; i < kImages; ++i) {
        for (std::size_t c = 0; c < kColumns; ++c) {
          for (std::size_t n = 0; n < kTrain; ++n)
            mean[side](i, c) += value(side, n, i, c) / kTrain;
          for (std::size_t n = 0; n < kTrain; ++n)
            squares[side](i, c) += std::pow(value(side, n, i, c) - mean[side](i, c), 2);
        }
      }
    }
    const auto variance = [&](int side, std::size_t i, std::size_t c) {
      return side == 2 ? (squares[0](i, c) + squares[1](i, c)) / (2 * kTrain - 2)
                       : squares[side](i, c) / (kTrain - 1);
    };
    const auto shrunk = [&](int side, std::size_t i, std::size_t c) {
      double of_class = 0;
      for (std::size_t other = 0; other < kImages; ++other)
        of_class += variance(side, other, c) / kImages;
      return (1 + 1.0 / kTrain) * ((1 - share) * variance(side, i, c) + share * of_class);
    };
    for (std::size_t side = 0; side < 2; ++side) {
      for (std::size_t t = 0; t < kTest; ++t) {
        for (std::size_t i = 0; i < kImages; ++i) {
          double pooled = 0, own = 0;
          for (std::size_t c = 0; c < kColumns; ++c) {
            const double x = value(side, kTrain + t, i, c);
            const double d0 = std::pow(x - mean[0](i, c), 2), d1 = std::pow(x - mean[1](i, c), 2);
            const double v = shrunk(2, i, c), v0 = shrunk(0, i, c), v1 = shrunk(1, i, c);
            pooled += (d1 - d0) / (2 * v);
            own += (std::log(v1 / v0) + d1 / v1 - d0 / v0) / 2;
          }
          // Floats of size 10 in and out, some twenty operations.
          EXPECT_NEAR(ours.pooled.scores[side](t, i), pooled, 1e-4 * (1 + std::abs(pooled)));
          EXPECT_NEAR(ours.own.scores[side](t, i), own, 1e-4 * (1 + std::abs(own)));
        }
      }
    }
  }
}

// Unit variance, means `distance` apart in a direction of each image's own: the best attack has
// advantage 2 Phi(distance sqrt(m) / 2) - 1 from m answers. Means of T networks are off by 2/T in
// each of k columns, which costs the factor sqrt(d^2 / (d^2 + 2k/T)).
TEST(PerImage, ComesUpToTheBestAttackThereIs) {
  constexpr std::size_t kTrain = 200, kTest = 100, kImages = 200, kColumns = 5;
  constexpr double kDistance = 1;
  const Networks networks(kTrain, kTest, kImages, kColumns, 2,
                          [](std::size_t side, std::size_t image, std::size_t c, double noise) {
                            const double sign = own_number(image, c, 2) > 0 ? 1 : -1;
                            return 5 * own_number(image, c, 1) +
                                   (side == 0 ? sign * kDistance / std::sqrt(5.0) : 0) + noise;
                          });
  const double reached = kDistance * std::sqrt(kDistance * kDistance /
                                               (kDistance * kDistance + 2.0 * kColumns / kTrain));
  for (const std::optional<double> shrinkage : {std::optional<double>(), std::optional(0.5)}) {
    const NumberScores scores = score_numbers(networks.input(), false, shrinkage);
    for (const std::size_t answers : {std::size_t{1}, std::size_t{10}}) {
      const double best = 2 * normal_cdf(reached * std::sqrt(static_cast<double>(answers)) / 2) - 1;
      const double within = tolerance(kTest * kImages / answers);
      EXPECT_NEAR(advantage(scores.pooled.scores, answers), best, within);
      EXPECT_NEAR(advantage(scores.own.scores, answers), best, within + 0.01);
    }
  }
}

// All images spread alike, and three networks to learn from: their variances must be pooled over
// images. Without that the attack is far too sure of itself and loses.
TEST(PerImage, IsNotOverconfidentFromThreeNetworks) {
  const Networks networks(3, 100, 200, 9, 3,
                          [](std::size_t side, std::size_t image, std::size_t c, double noise) {
                            return 5 * own_number(image, c, 1) +
                                   (side == 0 ? 0.8 * own_number(image, c, 2) : 0) + noise;
                          });
  const NumberScores chosen = score_numbers(networks.input());
  const NumberScores none = score_numbers(networks.input(), false, 0.0);
  for (const auto& [ours, bare] :
       {std::pair(&chosen.pooled, &none.pooled), std::pair(&chosen.own, &none.own)}) {
    EXPECT_GE(ours->shrinkage, 0.75);
    EXPECT_GT(advantage(ours->scores), advantage(bare->scores) + 0.03);
    EXPECT_LT(mean_log_loss(ours->scores), std::log(2.0));      // better than saying nothing
    EXPECT_GT(mean_log_loss(bare->scores), 2 * std::log(2.0));  // far worse than that
  }
}

// Spreads that differ a hundredfold between images, and networks enough to know them: shrinking
// would cost. The best attack's distance is |shift| / spread of the image.
TEST(PerImage, TrustsEachImagesVarianceWhereThereAreManyNetworks) {
  constexpr std::size_t kImages = 128;
  const auto spread = [](std::size_t image, std::size_t c) {
    return own_number(image, c, 3) > 0 ? 0.1 : 1.0;
  };
  const Networks networks(100, 100, kImages, 3, 4,
                          [&](std::size_t side, std::size_t image, std::size_t c, double noise) {
                            return (side == 0 ? 0.1 : 0) + spread(image, c) * noise;
                          });
  const NumberScores chosen = score_numbers(networks.input());
  EXPECT_LE(chosen.pooled.shrinkage, 0.25);
  EXPECT_LE(chosen.own.shrinkage, 0.25);
  double best = 0;
  for (std::size_t image = 0; image < kImages; ++image) {
    double square = 0;
    for (std::size_t c = 0; c < 3; ++c) square += std::pow(0.1 / spread(image, c), 2);
    best += (2 * normal_cdf(std::sqrt(square) / 2) - 1) / kImages;
  }
  // Estimated means cost up to 2k/T = 0.06 of d^2 = 1; half that in the advantage.
  EXPECT_NEAR(advantage(chosen.pooled.scores), best, tolerance(100 * kImages) + 0.03);
  EXPECT_GT(advantage(chosen.pooled.scores),
            advantage(score_numbers(networks.input(), false, 1.0).pooled.scores) + 0.1);
}

// N(0, 1) against N(0, 4): the best attack answers by |x| < 1.3596 and has advantage 0.3226.
TEST(PerImage, OnlyTheSecondFormFindsADifferenceInSpread) {
  constexpr std::size_t kTest = 100, kImages = 200;
  const Networks networks(100, kTest, kImages, 1, 5,
                          [](std::size_t side, std::size_t image, std::size_t c, double noise) {
                            return 3 * own_number(image, c, 1) + (side == 0 ? 1 : 2) * noise;
                          });
  const NumberScores scores = score_numbers(networks.input());
  EXPECT_NEAR(advantage(scores.pooled.scores), 0, tolerance(kTest * kImages) + 0.01);
  EXPECT_NEAR(advantage(scores.own.scores), 0.3226, tolerance(kTest * kImages) + 0.01);
  EXPECT_GT(advantage(scores.own.scores, 10), 0.75);
}

// Nothing to find: with 3, 10 and 50 networks to learn from, 1 and 10 answers. 18 comparisons,
// each wrong with probability 6e-5 (answers here are independent).
TEST(PerImage, FindsNothingBetweenEqualPopulations) {
  for (const std::size_t train : {std::size_t{3}, std::size_t{10}, std::size_t{50}}) {
    const Networks networks(train, 60, 128, 4, 6 + train,
                            [](std::size_t, std::size_t image, std::size_t c, double noise) {
                              return 2 * own_number(image, c, 1) + noise;
                            });
    const NumberScores scores = score_numbers(networks.input(), true);
    const PerImageScores labels = score_labels(networks.input());
    for (const std::size_t answers : {std::size_t{1}, std::size_t{10}})
      for (const auto* found : {&scores.pooled, &scores.own, &labels})
        EXPECT_NEAR(advantage(found->scores, answers), 0, tolerance(60 * (128 / answers)))
            << train << ' ' << answers;
  }
}

// Seen networks label even images 0 in nine cases of ten and odd ones 1, unseen ones the other way
// round: over the class both labels are as frequent, and each image gives advantage 0.8.
TEST(PerImage, LearnsTheLabelsOfEachImage) {
  const double quantile = 1.2815515655446004;  // Phi = 0.9
  const Networks networks(40, 50, 130, 2, 7,
                          [&](std::size_t side, std::size_t image, std::size_t c, double noise) {
                            const bool zero = (image % 2 == 0) == (side == 0);
                            return c == 0 ? 0 : noise + (zero ? -quantile : quantile);
                          });
  const PerImageScores scores = score_labels(networks.input());
  EXPECT_NEAR(advantage(scores.scores), 0.8, tolerance(50 * 130));
  EXPECT_GT(advantage(scores.scores, 10), 0.99);  // at best 0.998
}

TEST(PerImage, RefusesMoreNetworksThanLabelsCanBeCountedOf) {
  const auto answer = [](std::size_t, std::size_t, std::size_t, double noise) { return noise; };
  EXPECT_NO_THROW((void)score_labels(Networks(65'535, 1, 1, 2, 12, answer).input()));
  EXPECT_THROW((void)score_labels(Networks(65'536, 1, 1, 2, 12, answer).input()), Error);
}

TEST(PerImage, ACommonOffsetDoesNotChangeProbabilities) {
  const auto answer = [](std::size_t side, std::size_t image, std::size_t c, double noise) {
    return own_number(image, c, 1) + 0.2 * static_cast<double>(side * c) + noise;
  };
  Networks plain(8, 4, 20, 6, 8, answer), moved(8, 4, 20, 6, 8, answer);
  for (std::size_t side = 0; side < 2; ++side)
    for (std::size_t row = 0; row < moved.rows(side).rows(); ++row)
      for (float& value : moved.rows(side).row(row))
        value += 64 * static_cast<float>(row % 5) - 100;  // exact but for the last bits of values
  const NumberScores a = score_numbers(plain.input(), true, 0.5);
  const NumberScores b = score_numbers(moved.input(), true, 0.5);
  for (std::size_t i = 0; i < a.own.scores[0].flat().size(); ++i) {
    EXPECT_NEAR(a.own.scores[0].flat()[i], b.own.scores[0].flat()[i], 2e-3);
    EXPECT_NEAR(a.pooled.scores[0].flat()[i], b.pooled.scores[0].flat()[i], 2e-3);
  }
}

TEST(PerImage, ConstantAnswersSayNothing) {
  const Networks networks(4, 3, 5, 3, 9, [](std::size_t, std::size_t, std::size_t c, double) {
    return static_cast<double>(c);
  });
  const NumberScores scores = score_numbers(networks.input());
  const PerImageScores labels = score_labels(networks.input());
  for (const auto* found : {&scores.pooled, &scores.own, &labels})
    for (const auto& side : found->scores)
      for (const float score : side.flat()) EXPECT_EQ(score, 0);
}

TEST(PerImage, LossesAreThoseOfTheLogarithm) {
  for (const double size : {0.0, 1e-6, 0.1, 0.5, 1.0, 2.0, 3.7, 20.0, 85.0, 90.0, 1e6, 1e30})
    for (const double score : {size, -size})
      for (const bool first : {false, true}) {
        const double wrong = first ? -score : score;
        const double exact = std::max(wrong, 0.0) + std::log1p(std::exp(-std::abs(wrong)));
        EXPECT_NEAR(static_cast<double>(log_loss(static_cast<float>(score), first)), exact,
                    1e-6 * std::max(1.0, exact))
            << score;
      }
}

// Blocks and rows end anywhere: populations with their images in reverse order get the same.
TEST(PerImage, EveryImageAndColumnIsInItsPlace) {
  constexpr std::size_t kTrain = 6, kTest = 7;
  for (const std::size_t images : {1U, 3U, 4U, 63U, 64U, 65U, 131U}) {
    for (const std::size_t columns : {1U, 3U, 4U, 9U, 10U, 13U}) {
      const auto answer = [](std::size_t side, std::size_t image, std::size_t c, double noise) {
        return own_number(image, c, 1) + (side == 0 ? 1 : 0) + noise;
      };
      Networks networks(kTrain, kTest, images, columns, 3, answer), back = networks;
      for (std::size_t side = 0; side < 2; ++side)
        for (std::size_t n = 0; n < kTrain + kTest; ++n)
          for (std::size_t i = 0; i < images; ++i)
            std::ranges::copy(networks.rows(side).row(n * images + i),
                              back.rows(side).row((n + 1) * images - 1 - i).begin());
      const NumberScores a = score_numbers(networks.input(), false, 0.5);
      const NumberScores b = score_numbers(back.input(), false, 0.5);
      for (std::size_t side = 0; side < 2; ++side)
        for (std::size_t n = 0; n < kTest; ++n)
          for (std::size_t i = 0; i < images; ++i) {
            const float score = a.own.scores[side](n, i);
            EXPECT_NEAR(score, b.own.scores[side](n, images - 1 - i), 1e-4F * (1 + std::abs(score)))
                << images << " images, " << columns << " columns, image " << i;
          }
      const PerImageScores labels = score_labels(networks.input());
      const PerImageScores labels_back = score_labels(back.input());
      if (labels.shrinkage == labels_back.shrinkage) {  // which some of many images choose
        EXPECT_EQ(labels.scores[1](0, 0), labels_back.scores[1](0, images - 1));
      }
    }
  }
}

TEST(PerImage, SumsEveryImageOnceInTheSameGroups) {
  Matrix<float> scores(2, 23);
  for (std::size_t i = 0; i < 23; ++i) {
    scores(0, i) = static_cast<float>(1U << i);  // a sum tells its parts
    scores(1, i) = 2 * scores(0, i);
  }
  const Matrix<double> sums = AnswerGroups(23, 5).sums(scores, 10);
  ASSERT_EQ(sums.cols(), 2U);
  std::uint32_t all = 0;
  for (std::size_t g = 0; g < 2; ++g) {
    const auto parts = static_cast<std::uint32_t>(sums(0, g));
    EXPECT_EQ(__builtin_popcount(parts), 10);
    EXPECT_EQ(all & parts, 0U);
    EXPECT_EQ(sums(1, g), 2 * sums(0, g));
    all |= parts;
  }
  EXPECT_EQ(AnswerGroups(23, 5).sums(scores, 10), sums);
  EXPECT_NE(AnswerGroups(23, 6).sums(scores, 10), sums);
  EXPECT_EQ(AnswerGroups(23, 5).sums(scores, 24).cols(), 0U);
}

}  // namespace
}  // namespace oubli
