#include "oubli/attack/adaboost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "oubli/attack/stump_search.h"
#include "oubli/base/workers.h"

namespace oubli {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

// What a stump with these leaves contributes: votes left and right, and by what the weights of a
// label on a side are multiplied.
struct Boost {
  double error = 0;
  std::array<double, 2> vote{};
  std::array<PerLabel, 2> factor{};
};

Boost boost_of(const Stump& stump, bool real) {
  Boost boost;
  const std::array leaves{stump.left, stump.right};
  double total = 0;
  for (const PerLabel& leaf : leaves) {
    boost.error += std::min(leaf[0], leaf[1]);
    total += leaf[0] + leaf[1];
  }
  boost.error /= total;
  const double stump_weight = boost.error > 0 ? std::log((1 - boost.error) / boost.error) : 1.0;
  for (std::size_t side = 0; side < 2; ++side) {
    const auto [w0, w1] = leaves[side];
    const double sum = w0 + w1;
    if (sum == 0) continue;  // no point is there
    double& vote = boost.vote[side];
    if (real) {
      vote = std::log(std::max(w1 / sum, kEpsilon)) - std::log(std::max(w0 / sum, kEpsilon));
      boost.factor[side] = {std::exp(vote / 2), std::exp(-vote / 2)};
    } else {
      const bool answer = w1 > w0;
      vote = answer ? stump_weight : -stump_weight;
      boost.factor[side] = {answer ? std::exp(stump_weight) : 1,
                            answer ? 1 : std::exp(stump_weight)};
    }
  }
  return boost;
}

// The sum of all weights after they were multiplied.
double weight_after(const Stump& stump, const Boost& boost) {
  double sum = 0;
  for (std::size_t label = 0; label < 2; ++label)
    sum += stump.left[label] * boost.factor[0][label] + stump.right[label] * boost.factor[1][label];
  return sum;
}

}  // namespace

AdaBoost AdaBoost::fit(MatrixView<const float> x, std::span<const std::uint8_t> y,
                       const Options& options, RandomStream& /*random*/) {
  OUBLI_ASSERT(x.rows() == y.size() && x.rows() > 0);
  const std::size_t n = x.rows();
  const bool real = options.algorithm == Options::Algorithm::samme_r;
  const auto ones =
      static_cast<std::size_t>(std::ranges::count_if(y, [](auto v) { return v != 0; }));
  std::vector<Part> parts;
  if (ones == 0 || ones == n) {  // one label: a constant answer
    const double answer = ones == 0 ? -1 : 1;
    return {{{0, std::numeric_limits<float>::infinity(), answer, answer}}, options.workers};
  }

  Team team(options.workers);
  StumpSearch search(x, y, team);
  for (std::size_t round = 0; round < options.stumps; ++round) {
    const Stump stump = search.best();
    Boost boost = boost_of(stump, real);
    if (!real && boost.error >= 0.5) {
      // No better than guessing: boosting ends. (scikit-learn refuses if the first stump is; here
      // it is kept, and guesses.)
      if (parts.empty()) parts.push_back({0, stump.threshold, 0, 0});
      break;
    }
    parts.push_back({stump.feature, stump.threshold, boost.vote[0], boost.vote[1]});
    const double sum = weight_after(stump, boost);
    if (boost.error <= 0 || !std::isfinite(sum) || sum <= 0) break;
    for (PerLabel& factors : boost.factor)
      for (double& factor : factors) factor /= sum;
    // Rounding must not take a point out of the game for good.
    search.reweigh(stump, boost.factor[0], boost.factor[1], kEpsilon);
  }
  return {std::move(parts), options.workers};
}

std::vector<double> AdaBoost::score(MatrixView<const float> x) const {
  constexpr std::size_t kRows = 4096;
  std::vector<double> result(x.rows());
  run_tasks((x.rows() + kRows - 1) / kRows, workers_, [&](std::size_t task, unsigned) {
    const std::size_t begin = task * kRows, count = std::min(kRows, x.rows() - begin);
    double* sums = result.data() + begin;
    const float* values = x.data() + begin * x.cols();
    for (const Part& part : parts_)
      for (std::size_t i = 0; i < count; ++i)
        sums[i] += values[i * x.cols() + part.feature] <= part.threshold ? part.left : part.right;
  });
  return result;
}

std::vector<std::uint8_t> AdaBoost::predict(MatrixView<const float> x) const {
  return labels_of(score(x));
}

}  // namespace oubli
