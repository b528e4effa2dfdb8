#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oubli/filtration/filtration.h"
#include "oubli/filtration/mean_identity.h"
#include "oubli/filtration/test_example.h"

namespace oubli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::array kMethods{Method::naive, Method::centre, Method::normalization,
                              Method::randomization, Method::zeroing};

FiltrationPlan plan_for(const Example& e, const ClassMeans& means, Method method,
                        Centring centring = Centring::by_head, Solver solver = Solver::automatic) {
  return plan_filtration(e.head(), feature_calibration(means), Classes{2}, {method, 5}, solver,
                         centring);
}

Matrix<double> softmax(Matrix<double> logits) {
  for (std::size_t i = 0; i < logits.rows(); ++i) {
    const auto row = logits.row(i);
    const double top = *std::ranges::max_element(row);
    for (double& value : row) value = std::exp(value - top);
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    for (double& value : row) value /= sum;
  }
  return logits;
}

// Independent rows: k chi^2_p / p, so below 1 with probability 8e-7 for k = 8, p = 20.
TEST(Centring, TheRatioIsTheNumberOfClassesForUnrelatedRowsAndZeroForRowsThatSumToZero) {
  double mean = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Example e = make_example(8, 20, false, seed, 1);
    const double ratio = row_sum_ratio(e.head());
    EXPECT_GT(ratio, kRowsSumToZero);
    mean += ratio / 20;
    Matrix<double> turned(20, 8);
    for (std::size_t i = 0; i < 8; ++i)
      for (std::size_t d = 0; d < 20; ++d) turned(d, i) = e.W(i, d);
    EXPECT_NEAR(row_sum_ratio({tensor_view(std::as_const(turned).view(), "W"), true}), ratio,
                1e-12 * ratio);
  }
  EXPECT_NEAR(mean, 8, 5 * 8 * std::sqrt(2.0 / 20 / 20));  // five standard errors
  EXPECT_LT(row_sum_ratio(sum_zero_example(8, 20).head()), 1e-20);
  const Matrix<double> zeros(3, 2);
  EXPECT_TRUE(std::isnan(row_sum_ratio({tensor_view(std::as_const(zeros).view(), "W")})));
}

TEST(Centring, RowsThatSummedToZeroDoSoAgainAndProbabilitiesStay) {
  for (const auto& [classes, features] : {std::pair(6, 9), {12, 5}}) {
    const Example e =
        sum_zero_example(static_cast<std::size_t>(classes), static_cast<std::size_t>(features));
    const ClassMeans means = e.means();
    for (const Method method : kMethods) {
      const FiltrationPlan plan = plan_for(e, means, method);
      EXPECT_TRUE(plan.centred);
      const NewHead head = plan.filter.apply(e.head());
      EXPECT_LT(row_sum_ratio(view_of(head, e.head())), 1e-20);
      const NewHead as_published =
          plan_for(e, means, method, Centring::never).filter.apply(e.head());
      expect_near(softmax(logits_after(e, head)), softmax(logits_after(e, as_published)), 1e-12);
      EXPECT_TRUE(check_mean_identity(e.head(), view_of(head, e.head()), plan.filter,
                                      feature_calibration(means).means)
                      .holds());
      if (plan.on_logits)
        expect_near(logits_after(e, head), plan.on_logits->apply(e.logits()), 1e-10);
    }
  }
  const Example unrelated = make_example(6, 30, true);
  EXPECT_FALSE(plan_for(unrelated, unrelated.means(), Method::naive).centred);
}

// Heads with the same differences of retained rows and any forgotten row, all with rows that sum to
// zero, give the same new head: it says nothing about that row.
TEST(Centring, TheNewHeadDoesNotDependOnTheForgottenRow) {
  Example e = sum_zero_example(7, 9);
  const ClassMeans means = e.means();
  const auto heads = [&] {
    std::vector<Matrix<double>> all;
    for (const Method method : {Method::naive, Method::centre, Method::normalization})
      for (const Solver solver : {Solver::affine, Solver::ridge})
        all.push_back(to_matrix(plan_for(e, means, method, Centring::by_head, solver)
                                    .filter.apply(e.head())
                                    .weights.view("W")));
    return all;
  };
  const auto before = heads();
  RandomStream random(1, task_id("other row"));
  for (std::size_t d = 0; d < e.W.cols(); ++d) {
    const double shift = random.normal();
    for (std::size_t j = 0; j < e.W.rows(); ++j) e.W(j, d) += j == 2 ? -6 * shift : shift;
  }
  const auto after = heads();
  for (std::size_t i = 0; i < before.size(); ++i) {
    expect_near(after[i], before[i], 1e-12);
    EXPECT_EQ(before[i].flat().size(), before[0].flat().size());
    EXPECT_TRUE(std::ranges::equal(before[i].flat(), before[0].flat()));  // one and the same
  }
}

TEST(Centring, WarnsOfMeansThatCanBeComputedAndOfClassesThatGoAlong) {
  const auto warnings = [](const Example& e, Method method) {
    return plan_for(e, e.means(), method, Centring::by_head, Solver::ridge).warnings;
  };
  const Example many = make_example(20, 8, true), few = make_example(6, 30, true);
  for (const Method method : {Method::zeroing, Method::randomization})
    EXPECT_THAT(warnings(many, method), Contains(HasSubstr("can compute that mean")));
  EXPECT_THAT(warnings(many, Method::normalization),
              Not(Contains(HasSubstr("can compute that mean"))));
  EXPECT_THAT(warnings(few, Method::zeroing), Not(Contains(HasSubstr("can compute that mean"))));
  Example twins = few;  // class 4 has the samples of class 2
  for (std::size_t i = 0; i < twins.x.rows(); ++i)
    if (twins.labels[i] == 4) std::ranges::copy(twins.x.row(i - 2), twins.x.row(i).begin());
  for (const Method method : {Method::zeroing, Method::randomization})
    EXPECT_THAT(warnings(twins, method), Contains(HasSubstr("retained class 4: its mean is that")));
  EXPECT_THAT(warnings(twins, Method::normalization), Not(Contains(HasSubstr("retained class"))));
  EXPECT_THAT(warnings(few, Method::zeroing), Not(Contains(HasSubstr("retained class 4"))));
}

}  // namespace
}  // namespace oubli
