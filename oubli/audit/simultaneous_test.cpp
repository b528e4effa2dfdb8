#include "oubli/audit/simultaneous.h"

#include <gtest/gtest.h>

#include <cmath>

#include "oubli/audit/bootstrap.h"
#include "oubli/audit/figure.h"
#include "oubli/base/random.h"

namespace oubli {
namespace {

// Figures over two groups of networks: what networks have in common (`shared`) and what each figure
// has of its own, all standard normal; the true value of every figure is 0.
class Made {
 public:
  Made(std::size_t figures, std::size_t first, std::size_t second, double shared,
       std::uint64_t seed) {
    RandomStream random(seed, task_id("simultaneous test"));
    const std::size_t sizes[2] = {first, second};
    std::vector<double> common;
    for (std::size_t i = 0; i < first + second; ++i) common.push_back(random.normal());
    values_.resize(2 * figures);
    for (std::size_t f = 0; f < figures; ++f) {
      GroupedFigure figure;
      for (std::size_t g = 0; g < 2; ++g) {
        auto& values = values_[2 * f + g];
        for (std::size_t i = 0; i < sizes[g]; ++i)
          values.push_back(shared * common[g * first + i] +
                           std::sqrt(1 - shared * shared) * random.normal());
        figure.value += mean_std(values).mean;
        figure.groups.emplace_back(values);
      }
      figures_.push_back(figure);
    }
  }
  [[nodiscard]] const std::vector<GroupedFigure>& figures() const { return figures_; }

 private:
  std::vector<std::vector<double>> values_;
  std::vector<GroupedFigure> figures_;
};

// The critical value is a quantile of 4000 draws: off by 1 % or so.
TEST(Simultaneous, OneFigureHasStudentsInterval) {
  const Made made(1, 20, 20, 0, 1);
  const SimultaneousBounds bounds = simultaneous_bounds(made.figures(), 1);
  EXPECT_NEAR(bounds.critical, student_t_975(38), 0.06 * student_t_975(38));
  EXPECT_GE(bounds.critical, student_t_975(38) - 0.02);
  EXPECT_DOUBLE_EQ(bounds.half_width[0], bounds.critical * bounds.error[0]);
}

TEST(Simultaneous, FiguresThatMoveTogetherCountOnce) {
  const Made together(25, 40, 40, 1, 2), apart(25, 40, 40, 0, 2);
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

// Whether any of 24 figures misses its true value, 0: in 5 of 100 audits by design. Of 300, 31 or
// more do with probability 1e-4 if 5 % is true.
TEST(Simultaneous, AllIntervalsHoldAtOnce) {
  for (const auto& [first, second] : {std::pair(2, 2), std::pair(6, 6), std::pair(3, 30)}) {
    for (const double shared : {0.0, 0.7}) {
      std::size_t missed = 0;
      for (std::uint64_t seed = 0; seed < 300; ++seed) {
        const Made made(24, static_cast<std::size_t>(first), static_cast<std::size_t>(second),
                        shared, 10 + seed);
        const SimultaneousBounds bounds = simultaneous_bounds(made.figures(), seed);
        bool any = false;
        for (std::size_t f = 0; f < 24; ++f)
          any = any || std::abs(made.figures()[f].value) > bounds.half_width[f];
        if (any) ++missed;
      }
      std::printf("%d and %d networks, shared %.1f: any of 24 intervals misses in %.1f %%\n", first,
                  second, shared, static_cast<double>(missed) / 3);
      EXPECT_LT(missed, 31U) << first << ' ' << second << ' ' << shared;
    }
  }
}

}  // namespace
}  // namespace oubli
