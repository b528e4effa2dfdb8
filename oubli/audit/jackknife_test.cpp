#include "oubli/audit/jackknife.h"

#include <gtest/gtest.h>

#include <cmath>

#include "oubli/audit/bootstrap.h"

namespace oubli {
namespace {

TEST(Jackknife, LeavesOutEveryModelOnce) {
  ASSERT_EQ(jackknife_groups(23), 10U);
  std::size_t next = 0;
  for (std::size_t group = 0; group < 10; ++group) {
    const RowRange rows = rows_of_group(46, 23, group);  // 23 models of 2 rows
    EXPECT_EQ(rows.begin, next);
    EXPECT_TRUE(rows.size() == 4 || rows.size() == 6) << rows.size();
    next = rows.end;
  }
  EXPECT_EQ(next, 46U);
}

// For a sum of two means with groups of one model, the jackknife's error is the textbook's.
TEST(Jackknife, OfMeansIsTheTextbookError) {
  const std::vector<double> x = {1, 4, 2, 8, 5}, y = {3, 3.5, 1, 2};
  const auto mean_without = [](const std::vector<double>& values) {
    std::vector<double> result;
    for (std::size_t out = 0; out < values.size(); ++out) {
      double sum = 0;
      for (std::size_t i = 0; i < values.size(); ++i) sum += i == out ? 0 : values[i];
      result.push_back(sum / static_cast<double>(values.size() - 1));
    }
    return result;
  };
  // Variances 7.5 (mean 4) and 3.6875 / 3 (mean 2.375).
  const double error = std::sqrt(7.5 / 5 + 3.6875 / 3 / 4);
  // Welch's degrees of freedom: 1.8073^2 / (1.5^2 / 4 + 0.3073^2 / 3) = 5.498.
  EXPECT_NEAR(jackknife_half_width({mean_without(x), mean_without(y)}),
              student_t_975(5.498) * error, 1e-3);
  // With six groups and more the degrees of freedom add.
  const std::vector<double> z = {1, 4, 2, 8, 5, 4};
  const double equal = std::sqrt(2 * 6.0 / 6);  // variances 6 (mean 4)
  EXPECT_NEAR(jackknife_half_width({mean_without(z), mean_without(z)}), student_t_975(10) * equal,
              1e-12);
  EXPECT_FALSE(jackknife_possible({mean_without(x), {1, 2}}));
}

}  // namespace
}  // namespace oubli
