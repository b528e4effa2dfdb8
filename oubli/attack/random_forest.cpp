#include "oubli/attack/random_forest.h"

#include <algorithm>
#include <cmath>

#include "oubli/attack/transpose.h"
#include "oubli/base/workers.h"

namespace oubli {

RandomForest RandomForest::fit(MatrixView<const float> x, std::span<const std::uint8_t> y,
                               const Options& options, RandomStream& random) {
  OUBLI_ASSERT(x.rows() == y.size() && x.rows() > 0 && x.cols() > 0 && options.trees > 0);
  Team team(options.workers);
  Bins bins;
  Matrix<std::uint16_t> binned;
  {
    const Matrix<float> columns = transposed(x, team);
    bins = Bins::fit(columns, team);
    binned = bins.columns(columns, team);
  }
  const BinnedData data{binned.flat(), x.rows(), x.cols(), y};
  const DecisionTreeOptions tree_options{
      .max_depth = options.max_depth,
      .max_features = options.max_features != 0
                          ? options.max_features
                          : static_cast<std::size_t>(std::sqrt(static_cast<double>(x.cols())))};
  // Each tree has a stream of its own, so that trees can be grown in any order.
  const std::uint64_t seed = random.next_u64();
  std::vector<DecisionTree> trees(options.trees);
  struct Worker {
    TreeBuffers buffers;
    std::vector<std::uint16_t> weights;
  };
  std::vector<Worker> workers(team.workers());
  team.run(options.trees, [&](std::size_t tree, unsigned worker) {
    RandomStream stream(seed, task_id("tree", {tree}));
    auto& [buffers, weights] = workers[worker];
    weights.assign(x.rows(), 0);
    for (std::size_t i = 0; i < x.rows(); ++i) {
      std::uint16_t& weight = weights[stream.below(x.rows())];
      if (weight != 0xFFFF) ++weight;  // beyond any chance, but no wrapping round
    }
    trees[tree] = DecisionTree::fit(data, weights, tree_options, stream, buffers);
  });
  return {std::move(bins), std::move(trees), options.workers};
}

std::vector<double> RandomForest::score(MatrixView<const float> x) const {
  OUBLI_ASSERT(x.cols() == bins_.features());
  constexpr std::size_t kRows = 4096;  // per task: all trees pass over rows that stay in the cache
  std::vector<double> result(x.rows());
  run_tasks((x.rows() + kRows - 1) / kRows, workers_, [&](std::size_t task, unsigned) {
    const std::size_t begin = task * kRows, count = std::min(kRows, x.rows() - begin);
    std::vector<std::uint16_t> rows(count * x.cols());
    bins_.rows(x.middle_rows(begin, count), rows);
    std::vector<float> sums(count);
    for (const DecisionTree& tree : trees_) tree.add_probability(rows, x.cols(), sums);
    for (std::size_t i = 0; i < count; ++i)
      result[begin + i] = static_cast<double>(sums[i]) / static_cast<double>(trees_.size()) - 0.5;
  });
  return result;
}

std::vector<std::uint8_t> RandomForest::predict(MatrixView<const float> x) const {
  return labels_of(score(x));
}

}  // namespace oubli
