#pragma once

// Made-up leaks and figures over networks, for the tests of verdicts.

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "oubli/audit/simultaneous.h"
#include "oubli/audit/verdict.h"
#include "oubli/base/random.h"

namespace oubli::testing {

// Shares of right answers of `networks` test networks per population: `advantage` on average, and
// `spread` between networks, part of it common to all attacks.
struct Simulated {
  std::size_t networks = 30;
  double spread = 0.1;
  std::vector<double> advantages;  // of several attacks
  std::size_t answers = 1;
};

inline Leaks leaks_of(const Simulated& made, std::uint64_t seed) {
  RandomStream random(seed, task_id("verdict"));
  Leaks leaks;
  leaks.networks_train = 7 * made.networks / 3;
  std::array<std::vector<double>, 2> common;
  for (auto& side : common)
    for (std::size_t n = 0; n < made.networks; ++n) side.push_back(random.normal());
  ObserverLeak observer;
  for (std::size_t a = 0; a < made.advantages.size(); ++a) {
    AttackLeak leak;
    leak.attack = EnumNames<Attack>::kTable[a % 7].value;
    leak.answers = made.answers + a / 7;
    leak.answers_per_network = 100;
    double value = -1;
    for (std::size_t side = 0; side < 2; ++side) {
      for (std::size_t n = 0; n < made.networks; ++n) {
        const double share = 0.5 + made.advantages[a] / 2 +
                             made.spread * (0.8 * common[side][n] + 0.6 * random.normal());
        leak.shares[side].push_back(std::clamp(share, 0.0, 1.0));
      }
      value += mean_std(leak.shares[side]).mean;
    }
    leak.advantage = Figure::of(value);
    observer.attacks.push_back(std::move(leak));
  }
  ClassLeaks of_class;
  of_class.forgotten = true;
  of_class.observers.push_back(std::move(observer));
  leaks.classes.push_back(std::move(of_class));
  return leaks;
}

// Figures over two groups of networks: what networks have in common (`shared`) and what each figure
// has of its own, all standard normal; the true value of every figure is 0.
class MadeFigures {
 public:
  MadeFigures(std::size_t figures, std::size_t first, std::size_t second, double shared,
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

}  // namespace oubli::testing
