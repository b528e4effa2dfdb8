#include "oubli/audit/score_figures.h"

#include <gtest/gtest.h>

#include <cmath>

#include "oubli/array/array_file.h"
#include "oubli/array/npy.h"
#include "oubli/base/random.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using ::testing::HasSubstr;

ModelBootstrap bootstrap_of(std::size_t first, std::size_t second) {
  RandomStream random(1, task_id("bootstrap"));
  return {first, second, 1000, random};
}

// Scores N(shift, 1) of the first population, N(0, 1) of the second; each network adds a number of
// its own with standard deviation `effect`; rounded to multiples of `step` (0: not).
ScorePair normal_scores(std::size_t networks, std::size_t answers, double shift, double effect,
                        double step, std::uint64_t seed) {
  ScorePair scores{Matrix<double>(networks, answers), Matrix<double>(networks, answers)};
  RandomStream random(seed, task_id("scores"));
  for (std::size_t side = 0; side < 2; ++side) {
    for (std::size_t n = 0; n < networks; ++n) {
      const double own = effect * random.normal() + (side == 0 ? shift : 0);
      for (double& score : scores[side].row(n)) {
        score = own + random.normal();
        if (step > 0) score = step * std::round(score / step);
      }
    }
  }
  return scores;
}

ScoreFigures figures_of(const ScorePair& scores) {
  const ModelBootstrap bootstrap = bootstrap_of(scores[0].rows(), scores[1].rows());
  return score_figures(summarise_scores(scores, bootstrap), bootstrap);
}

TEST(ScoreFigures, AgreeWithScikitLearn) {
  if (std::system("/usr/bin/python3 -c 'import sklearn' 2>/dev/null") != 0)
    GTEST_SKIP() << "python3-sklearn is not installed";
  for (const double step : {0.0, 0.25}) {
    const testing::TempFolder folder;
    const ScorePair scores = normal_scores(12, 250, 0.8, 0.5, step, 3);
    for (std::size_t side = 0; side < 2; ++side)
      write_npy(
          folder / (side == 0 ? "first.npy" : "second.npy"),
          {DType::f64, {scores[side].flat().size()}, std::as_bytes(scores[side].flat()), "scores"});
    testing::run_python(folder, R"(
import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve
first, second = np.load("first.npy"), np.load("second.npy")
y = np.repeat([1, 0], [len(first), len(second)])
score = np.concatenate([first, second])
out = [roc_auc_score(y, score)]
for share in (0.01, 0.001):
    for positive in (1, 0):
        fpr, tpr, _ = roc_curve(y == positive, score if positive else -score, drop_intermediate=False)
        out.append(tpr[fpr <= share + 1e-12].max())
np.save("out.npy", np.array(out))
)");
    const auto theirs = to_vector(load_array((folder / "out.npy").string()));
    const ScoreFigures ours = figures_of(scores);
    EXPECT_NEAR(*ours.area.value, theirs[0], 1e-12);
    for (std::size_t t = 0; t < kTails; ++t) {
      EXPECT_NEAR(*ours.tails[t].rate.value, theirs[t + 1], 1e-12) << t;
      EXPECT_EQ(ours.tails[t].answers, 3000U);
      EXPECT_LE(*ours.tails[t].rate.low, *ours.tails[t].rate.value);
      EXPECT_GE(*ours.tails[t].rate.high, *ours.tails[t].rate.value);
    }
  }
}

TEST(ScoreFigures, TheMirrorIsTheSameSeenFromTheOtherSide) {
  const ScorePair scores = normal_scores(10, 200, 1, 0.5, 0, 4);
  ScorePair mirrored{scores[1], scores[0]};
  for (auto& side : mirrored)
    for (double& score : side.flat()) score = -score;
  const ScoreFigures a = figures_of(scores), b = figures_of(mirrored);
  EXPECT_NEAR(*a.area.value, *b.area.value, 1e-12);
  for (std::size_t level = 0; level < 2; ++level) {
    EXPECT_DOUBLE_EQ(*a.tails[2 * level].rate.value, *b.tails[2 * level + 1].rate.value);
    EXPECT_TRUE(a.tails[2 * level].first_positive);
    EXPECT_FALSE(a.tails[2 * level + 1].first_positive);
  }
}

TEST(ScoreFigures, SaysWhatTooFewAnswersCannotGive) {
  const ScoreFigures figures = figures_of(normal_scores(3, 50, 1, 0, 0, 5));
  EXPECT_TRUE(figures.tails[0].rate.value);
  EXPECT_THAT(figures.tails[0].rate.reason, HasSubstr("fewer than 6 test networks"));
  EXPECT_FALSE(figures.tails[2].rate.value);
  EXPECT_THAT(figures.tails[2].rate.reason, HasSubstr("150 answers"));
  EXPECT_THAT(figures.tails[2].rate.reason, HasSubstr("takes 1000"));
}

TEST(ScoreFigures, TiesAreHalfRight) {
  ScorePair scores{Matrix<double>(2, 2), Matrix<double>(2, 2)};
  scores[0].row(0)[0] = 1;   // right, tie
  scores[0].row(1)[0] = -1;  // wrong, tie
  scores[1].row(0)[0] = -1;  // right, tie
  const auto shares = right_shares(scores);
  EXPECT_EQ(shares[0], (std::vector{0.75, 0.25}));
  EXPECT_EQ(shares[1], (std::vector{0.75, 0.5}));
}

// N(1, 1 + e^2) against N(0, 1 + e^2), e = 0.7 between networks: AUC = Phi(1 / sqrt(2 (1 + e^2))).
// The interval over networks misses it once in 20 times by design: of 200, 24 or more do with
// probability 7e-5. One over independent answers would miss it most of the time.
TEST(ScoreFigures, IntervalsOfTheAreaCoverNetworks) {
  const double area = std::erfc(-1 / std::sqrt(2 * (1 + 0.49)) / std::sqrt(2.0)) / 2;
  std::size_t missed = 0;
  const ModelBootstrap bootstrap = bootstrap_of(12, 12);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const ScoreFigures figures = score_figures(
        summarise_scores(normal_scores(12, 40, 1, 0.7, 0, seed), bootstrap), bootstrap);
    if (area < *figures.area.low || area > *figures.area.high) ++missed;
  }
  EXPECT_LT(missed, 24U);
}

TEST(ScoreFigures, ClassesAreAveragedBeforeIntervalsAreTaken) {
  const ScorePair scores = normal_scores(8, 200, 1, 0.5, 0, 6);
  const ModelBootstrap bootstrap = bootstrap_of(8, 8);
  ScoreSummary twice = summarise_scores(scores, bootstrap);
  twice.add(summarise_scores(scores, bootstrap));
  twice.divide(2);
  const ScoreFigures once = figures_of(scores), both = score_figures(twice, bootstrap);
  EXPECT_NEAR(*both.area.value, *once.area.value, 1e-12);
  EXPECT_NEAR(*both.area.low, *once.area.low, 1e-12);
  EXPECT_NEAR(*both.tails[0].rate.high, *once.tails[0].rate.high, 1e-12);
}

}  // namespace
}  // namespace oubli
