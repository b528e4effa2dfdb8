#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "oubli/attack/attack_model.h"
#include "oubli/attack/binning.h"
#include "oubli/attack/decision_tree.h"

namespace oubli {

struct RandomForestOptions {
  std::size_t trees = 100;
  std::size_t max_depth = 0;  // 0: until the leaves are pure
  std::size_t max_features =
      0;  // looked at per split; 0: the square root of their number, rounded down
  unsigned workers = 1;
};

// Random forest: each tree on a bootstrap sample, Gini impurity, a random choice of features at
// each split; the label is that of the larger mean leaf probability, label 0 if equal.
//
// As scikit-learn's, except that split points are boundaries of at most 1024 quantile bins per
// feature, 256 in nodes of 512 rows and more (every value its own bin where there are that few);
// sklearn_test.cpp measures that accuracy is the same.
class RandomForest {
 public:
  using Options = RandomForestOptions;
  static RandomForest fit(MatrixView<const float> x, std::span<const std::uint8_t> y,
                          const Options& options, RandomStream& random);
  [[nodiscard]] std::vector<std::uint8_t> predict(MatrixView<const float> x) const;
  // Mean probability of label 1 over the trees, minus 1/2.
  [[nodiscard]] std::vector<double> score(MatrixView<const float> x) const;

  // The paper's attack, and a strong one.
  static constexpr Options kPaper{.trees = 10, .max_depth = 5};
  static constexpr Options kStrong{.trees = 100, .max_depth = 0};

 private:
  RandomForest(Bins bins, std::vector<DecisionTree> trees, unsigned workers)
      : bins_(std::move(bins)), trees_(std::move(trees)), workers_(workers) {}
  Bins bins_;
  std::vector<DecisionTree> trees_;
  unsigned workers_;
};

static_assert(AttackModel<RandomForest>);

}  // namespace oubli
