#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "oubli/base/random.h"

namespace oubli {

// Training data for one or many trees: Bins::columns of the points, and their labels.
struct BinnedData {
  std::span<const std::uint16_t> bins;
  std::size_t rows = 0;
  std::size_t features = 0;
  std::span<const std::uint8_t> labels;  // 0 or 1

  [[nodiscard]] const std::uint16_t* column(std::size_t feature) const {
    return bins.data() + feature * rows;
  }
};

struct DecisionTreeOptions {
  std::size_t max_depth = 0;     // 0: until the leaves are pure
  std::size_t max_features = 1;  // looked at per split, more only while all of them are constant
};

// What growing a tree needs besides the tree, kept for the next one: trees are grown side by side,
// and memory that is taken and given back for each has all threads wait for each other.
class TreeBuffers {
 public:
  TreeBuffers();
  ~TreeBuffers();
  TreeBuffers(TreeBuffers&&) noexcept;
  TreeBuffers& operator=(TreeBuffers&&) noexcept;

 private:
  friend class DecisionTree;
  struct Content;
  std::unique_ptr<Content> content_;
};

// A binary classification tree over binned features, Gini impurity, as flat arrays.
class DecisionTree {
 public:
  // `weights`: how often each row occurs in the bootstrap sample.
  static DecisionTree fit(const BinnedData& data, std::span<const std::uint16_t> weights,
                          const DecisionTreeOptions& options, RandomStream& random,
                          TreeBuffers& buffers);

  // Adds to sums[i] the leaf's share of label 1 for row i of `rows`, sums.size() rows of `features`
  // bins (Bins::rows).
  void add_probability(std::span<const std::uint16_t> rows, std::size_t features,
                       std::span<float> sums) const;

  [[nodiscard]] std::size_t size() const { return nodes_.size(); }

 private:
  // A split goes to `child` where the bin is at most `bin`, else to child + 1. A leaf has itself as
  // `child`, and the largest `bin`, so that walking on stays there.
  struct Node {
    std::uint32_t child = 0;
    std::uint16_t feature = 0;
    std::uint16_t bin = 0xFFFF;
  };

  std::vector<Node> nodes_;
  std::vector<float> probability_;  // of label 1, per node
  std::size_t depth_ = 0;
};

}  // namespace oubli
