#include "oubli/filtration/solver_choice.h"

#include <gtest/gtest.h>

#include <cmath>

#include "oubli/base/error.h"
#include "oubli/base/random.h"
#include "oubli/filtration/filtration.h"
#include "oubli/filtration/head.h"

namespace oubli {
namespace {

// A head and its class means, the k-th mean near the k-th row.
struct Problem {
  Matrix<double> W, means;
  Problem(std::size_t classes, std::size_t features) : W(classes, features) {
    RandomStream random(7, task_id("problem"));
    for (double& value : W.flat()) value = random.normal();
    means = W;
    for (double& value : means.flat()) value += 0.1 * random.normal();
  }
  [[nodiscard]] HeadView head() const { return {tensor_view(W.view(), "W"), false, 1, {}, 1}; }
  [[nodiscard]] Calibration on_features(double within_variance = 0.25) const {
    return {.space = Space::features,
            .means = tensor_view(means.view(), "means"),
            .within_variance = within_variance};
  }
};

std::string refusal(const Problem& problem, const Calibration& calibration,
                    std::span<const std::size_t> forget, Solver solver) {
  const HeadView head = problem.head();
  try {
    (void)solve_duals(&head, calibration, forget, solver);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unfilterable) << error.what();
    return error.what();
  }
  return "none";
}

// Targets of more classes than features + 1 cannot all be met, whatever they are means of.
TEST(SolverChoice, RidgeRefusesMoreClassesThanFeaturesSpan) {
  const Problem problem(20, 4);
  const std::vector<std::size_t> five{0, 1, 2, 3, 4}, six{0, 1, 2, 3, 4, 5};
  const Matrix<double> A_t = logits_of(problem.head(), problem.means);
  const Calibration on_logits{.space = Space::logits,
                              .means = tensor_view(MatrixView<const double>(A_t), "logits"),
                              .within_variance = 0.25};
  for (const Solver solver : {Solver::automatic, Solver::ridge})
    for (const Calibration& calibration : {problem.on_features(), on_logits}) {
      EXPECT_NE(refusal(problem, calibration, six, solver).find("at most features + 1 = 5"),
                std::string::npos);
      EXPECT_EQ(refusal(problem, calibration, five, solver), "none");
      const HeadView head = problem.head();
      EXPECT_LT(solve_duals(&head, calibration, five, solver).report.residual_forgotten, 1e-9);
    }
}

// Two forgotten classes with one mean cannot go to two places.
TEST(SolverChoice, ForgottenMeansThatAreTheSameAreRefused) {
  for (const std::size_t features : {std::size_t{4}, std::size_t{30}}) {
    Problem problem(12, features);
    for (std::size_t d = 0; d < features; ++d) problem.means(1, d) = problem.means(0, d);
    const std::vector<std::size_t> both{0, 1};
    for (const Solver solver : {Solver::automatic, Solver::ridge})
      EXPECT_NE(refusal(problem, problem.on_features(), both, solver), "none");
  }
}

// Nearly the same: solved, and said to be a poor solution.
TEST(SolverChoice, ALastResortIsAWarning) {
  Problem problem(12, 30);
  for (std::size_t d = 0; d < 30; ++d)
    problem.means(1, d) = problem.means(0, d) + 1e-4 * problem.means(1, d);
  const std::vector<std::size_t> both{0, 1};
  const auto poor = plan_filtration(problem.head(), problem.on_features(), both, {});
  EXPECT_EQ(poor.solver->chosen, Solver::ridge);
  ASSERT_EQ(poor.warnings.size(), 1U);
  EXPECT_NE(poor.warnings[0].find("gain"), std::string::npos);
  EXPECT_LT(poor.solver->residual_forgotten, 1e-6);

  const Problem good(12, 30);
  EXPECT_TRUE(plan_filtration(good.head(), good.on_features(0.01), both, {}).warnings.empty());
}

TEST(SolverChoice, AGuessedPenaltyIsAWarning) {
  const Problem problem(12, 4);
  const std::vector<std::size_t> one{3};
  const auto guessed = plan_filtration(problem.head(), problem.on_features(std::nan("")), one, {});
  ASSERT_EQ(guessed.warnings.size(), 1U);
  EXPECT_NE(guessed.warnings[0].find("guesses its penalty"), std::string::npos);
  EXPECT_TRUE(plan_filtration(problem.head(), problem.on_features(0.01), one, {}).warnings.empty());
}

// What a refusal recommends can be had with the same data.
TEST(SolverChoice, ARefusalOnLogitsDoesNotRecommendFeatures) {
  Problem problem(6, 10);
  for (std::size_t d = 0; d < 10; ++d) problem.W(3, d) = problem.W(2, d);
  const Matrix<double> A_t = logits_of(problem.head(), problem.means);
  const Calibration on_logits{.space = Space::logits,
                              .means = tensor_view(MatrixView<const double>(A_t), "logits"),
                              .within_variance = 0.25};
  const std::vector<std::size_t> one{0};
  EXPECT_EQ(refusal(problem, on_logits, one, Solver::paper).find(" affine"), std::string::npos);
  EXPECT_NE(refusal(problem, problem.on_features(), one, Solver::paper).find(" affine"),
            std::string::npos);
}

}  // namespace
}  // namespace oubli
