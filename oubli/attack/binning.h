#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/base/workers.h"

namespace oubli {

// Features as small numbers: bin b of a feature holds the values in (edge[b-1], edge[b]]. With no
// more distinct values than bins every value has its own bin and the edges lie halfway between
// neighbours, so that nothing is lost; with more, bins hold nearly equal numbers of training
// points.
class Bins {
 public:
  static constexpr std::size_t kMostBins = 1024;

  // `columns`: features x points, see transposed(). At most `most` bins, themselves at most
  // kMostBins.
  static Bins fit(MatrixView<const float> columns, Team& team, std::size_t most = kMostBins);

  // Features x points again, to learn from.
  [[nodiscard]] Matrix<std::uint16_t> columns(MatrixView<const float> columns, Team& team) const;
  // Row-major, [row * features + feature], to predict from; `out` of that size.
  void rows(MatrixView<const float> x, std::span<std::uint16_t> out) const;
  [[nodiscard]] std::size_t features() const { return edges_.size(); }
  // Ascending; one fewer than there are bins.
  [[nodiscard]] std::span<const float> edges(std::size_t feature) const { return edges_[feature]; }

 private:
  std::vector<std::vector<float>> edges_;
};

}  // namespace oubli
