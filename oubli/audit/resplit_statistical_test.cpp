#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "oubli/audit/resplit.h"
#include "oubli/base/random.h"

namespace oubli {
namespace {

double phi(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

struct World {
  std::size_t networks, dimensions;
  double separation;  // of the populations' means, along the first dimension
};

// Networks are points u of N(+-separation / 2, 0.5^2 I); each shows very many images N(u, I). The
// attack's direction is that between the mean training networks, its threshold their middle: one
// that learns well where the populations differ, and noise where they do not.
class Simulation {
 public:
  Simulation(const World& world, std::uint64_t repetition)
      : world_(world),
        train_(static_cast<std::size_t>(std::lround(0.7 * static_cast<double>(world.networks)))),
        random_(21, task_id("splits", {world.networks, world.dimensions, repetition})) {
    for (std::size_t side = 0; side < 2; ++side)
      for (std::size_t n = 0; n < world.networks; ++n) {
        std::vector<double> u(world.dimensions);
        for (double& x : u) x = 0.5 * random_.normal();
        u[0] += (side == 0 ? 0.5 : -0.5) * world.separation;
        networks_[side].push_back(std::move(u));
      }
  }

  // The advantage in another random split.
  double advantage() {
    std::vector<double> mean[2];
    for (std::size_t side = 0; side < 2; ++side) {
      random_.shuffle(std::span(networks_[side]));
      mean[side].assign(world_.dimensions, 0.0);
      for (std::size_t n = 0; n < train_; ++n)
        for (std::size_t d = 0; d < world_.dimensions; ++d)
          mean[side][d] += networks_[side][n][d] / static_cast<double>(train_);
    }
    double length = 0;
    for (std::size_t d = 0; d < world_.dimensions; ++d)
      length += (mean[0][d] - mean[1][d]) * (mean[0][d] - mean[1][d]);
    length = std::sqrt(length);
    double right = 0;
    for (std::size_t side = 0; side < 2; ++side)
      for (std::size_t n = train_; n < world_.networks; ++n) {
        double along = 0;
        for (std::size_t d = 0; d < world_.dimensions; ++d)
          along += (networks_[side][n][d] - (mean[0][d] + mean[1][d]) / 2) *
                   (mean[0][d] - mean[1][d]) / length;
        right += phi(side == 0 ? along : -along);
      }
    return right / static_cast<double>(world_.networks - train_) - 1;
  }
  [[nodiscard]] SplitSizes sizes() const { return {train_, world_.networks - train_}; }

 private:
  World world_;
  std::size_t train_;
  RandomStream random_;
  std::vector<std::vector<double>> networks_[2];
};

// Coverage of the expected advantage of an attack that learns from so many networks (the mean over
// the repetitions): over training networks as well as test networks. 1500 repetitions: a true
// coverage of 0.94 shows below 0.94 - 4 sqrt(0.94 * 0.06 / 1500) = 0.9155 with probability 3e-5;
// 10 cases, 3e-4. At most 0.99, so that intervals as wide as a guess do not pass: a true coverage
// of 0.985 shows above 0.985 + 4 sqrt(0.985 * 0.015 / 1500) = 0.9976 with 3e-5.
// Were two splits taken to be correlated by the share of test networks alone, coverage would fall
// below 0.90 where the populations hardly differ: at most that, and 4 standard errors.
TEST(ResplitStatistical, IntervalsCoverTheExpectedAdvantage) {
  constexpr std::size_t kRepetitions = 1500, kSplits = 10;
  for (const std::size_t networks : {100U, 20U})
    for (const auto& [dimensions, separation] :
         {std::pair<std::size_t, double>{1, 0.5}, {8, 0.0}, {8, 0.2}, {8, 0.5}, {8, 1.5}}) {
      std::vector<std::vector<double>> found;
      std::vector<double> means;
      SplitSizes sizes;
      for (std::uint64_t repetition = 0; repetition < kRepetitions; ++repetition) {
        Simulation simulation({networks, dimensions, separation}, repetition);
        sizes = simulation.sizes();
        std::vector<double> advantages(kSplits);
        for (double& advantage : advantages) advantage = simulation.advantage();
        means.push_back(mean_std(advantages).mean);
        found.push_back(std::move(advantages));
      }
      const double truth = mean_std(means).mean;
      std::size_t covered = 0, by_share = 0;
      const double q = 0.3;
      for (const std::vector<double>& advantages : found) {
        const Figure figure = over_splits(advantages, sizes, sizes, 1000);
        covered += *figure.low <= truth && truth <= *figure.high ? 1U : 0U;
        const double narrower =
            std::sqrt((1.0 / kSplits + q / (1 - q)) /
                      (1.0 / kSplits + 2 * q * (1 - q) / (1 - 2 * q * (1 - q))));
        const double half = narrower * (*figure.high - *figure.low) / 2;
        by_share += std::abs(*figure.value - truth) <= half ? 1U : 0U;
      }
      const double coverage = static_cast<double>(covered) / kRepetitions;
      const double of_share = static_cast<double>(by_share) / kRepetitions;
      printf(
          "%zu networks, %zu dimensions, %.1f apart: advantage %.3f, coverage %.3f (%.3f with "
          "rho = q)\n",
          networks, dimensions, separation, truth, coverage, of_share);
      EXPECT_GT(coverage, 0.9155) << networks << ' ' << dimensions << ' ' << separation;
      EXPECT_LT(coverage, 0.9976) << networks << ' ' << dimensions << ' ' << separation;
      if (dimensions == 8 && separation < 0.3) {
        EXPECT_LT(of_share, 0.93);
      }
    }
}

}  // namespace
}  // namespace oubli
