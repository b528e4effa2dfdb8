#include "oubli/audit/simultaneous.h"

#include <gtest/gtest.h>

#include <cmath>

#include "oubli/audit/bootstrap.h"
#include "oubli/audit/test_leaks.h"

namespace oubli {
namespace {

using testing::MadeFigures;

// The critical value is a quantile of 2000 draws: off by 2 % or so.
TEST(Simultaneous, OneFigureHasStudentsInterval) {
  const MadeFigures made(1, 20, 20, 0, 1);
  const SimultaneousBounds bounds = simultaneous_bounds(made.figures(), 1);
  EXPECT_NEAR(bounds.critical, student_t_975(38), 0.06 * student_t_975(38));
  EXPECT_GE(bounds.critical, student_t_975(38) - 0.02);
  EXPECT_DOUBLE_EQ(bounds.half_width[0], bounds.critical * bounds.error[0]);
}

TEST(Simultaneous, FiguresThatMoveTogetherCountOnce) {
  const MadeFigures together(25, 40, 40, 1, 2), apart(25, 40, 40, 0, 2);
  const double one = simultaneous_bounds(together.figures(), 1).critical;
  const double many = simultaneous_bounds(apart.figures(), 1).critical;
  EXPECT_NEAR(one, student_t_975(78), 0.06 * one);
  // 25 independent ones: the 99.9 % point (both sides 1 - 0.95^(1/25) = 0.00205), z = 3.083, a
  // little more for 78 degrees of freedom.
  EXPECT_NEAR(many, 3.18, 0.15);
}

TEST(Simultaneous, NetworksThatAgreeDoNotMakeAFigureCertain) {
  const std::vector<double> ones(10, 1.0);
  const GroupedFigure figure{1, {ones, ones}, 0.0004};
  const SimultaneousBounds bounds = simultaneous_bounds(std::vector{figure}, 1);
  EXPECT_DOUBLE_EQ(bounds.error[0], 0.02);
  EXPECT_GE(bounds.critical, student_t_975(18) - 0.01);
}

}  // namespace
}  // namespace oubli
