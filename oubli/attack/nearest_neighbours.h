#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "oubli/attack/attack_model.h"

namespace oubli {

struct NearestNeighboursOptions {
  std::size_t neighbours = 5;
  unsigned workers = 1;
};

// k nearest neighbours, Euclidean, every neighbour one vote; a tied vote goes to label 0.
//
// Exact: neighbours are ordered by (squared distance, position in the training data), the squared
// distance being the sum over the features, in order, of squared differences in double. That is the
// number scikit-learn's kd_tree compares, so predictions differ from it only where two
// training points are equally far and scikit-learn's choice depends on its tree.
//
// Up to 15 features a kd-tree, beyond that all points, both with single-precision SIMD
// distances used only to discard what cannot be among the nearest. Equal training points are stored
// once.
class NearestNeighbours {
 public:
  using Options = NearestNeighboursOptions;
  static NearestNeighbours fit(MatrixView<const float> x, std::span<const std::uint8_t> y,
                               const Options& options, RandomStream& random);
  [[nodiscard]] std::vector<std::uint8_t> predict(MatrixView<const float> x) const;
  // The neighbours' share of label 1, minus 1/2.
  [[nodiscard]] std::vector<double> score(MatrixView<const float> x) const;

 private:
  struct Index;
  explicit NearestNeighbours(std::shared_ptr<const Index> index) : index_(std::move(index)) {}
  std::shared_ptr<const Index> index_;
};

static_assert(AttackModel<NearestNeighbours>);

}  // namespace oubli
