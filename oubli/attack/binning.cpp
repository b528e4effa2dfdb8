#include "oubli/attack/binning.h"

#include <algorithm>
#include <array>
#include <limits>

#include "oubli/attack/radix_sort.h"
#include "oubli/base/workers.h"

namespace oubli {
namespace {

constexpr std::size_t kBins = Bins::kMostBins;

// Halfway, but below `high` even if they are neighbouring floats.
float between(float low, float high) {
  const float middle = low / 2 + high / 2;
  return middle < high ? middle : low;
}

std::vector<float> edges_of(std::span<const float> sorted) {
  std::size_t distinct = 1;
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i] != sorted[i - 1]) ++distinct;
  std::vector<float> edges;
  if (distinct <= kBins) {
    for (std::size_t i = 1; i < sorted.size(); ++i)
      if (sorted[i] != sorted[i - 1]) edges.push_back(between(sorted[i - 1], sorted[i]));
    return edges;
  }
  for (std::size_t b = 1; b < kBins; ++b) {
    // The end of the run of equal values in which the quantile falls.
    const float value = sorted[b * sorted.size() / kBins - 1];
    const auto next = std::ranges::upper_bound(sorted, value);
    if (next == sorted.end()) break;
    const float edge = between(value, *next);
    if (edges.empty() || edge > edges.back()) edges.push_back(edge);
  }
  return edges;
}

// The number of edges below `value`, by halving without branches. `edges`: kBins of them, filled up
// with infinity.
std::uint16_t bin_of(const float* edges, float value) {
  std::size_t base = 0;
  for (std::size_t step = kBins / 2; step > 0; step /= 2)
    base += edges[base + step - 1] < value ? step : 0;
  return static_cast<std::uint16_t>(base);
}

using PaddedEdges = std::array<float, kBins>;

PaddedEdges padded(std::span<const float> edges) {
  PaddedEdges result;
  result.fill(std::numeric_limits<float>::infinity());
  std::ranges::copy(edges, result.begin());
  return result;
}

}  // namespace

Bins Bins::fit(MatrixView<const float> x, unsigned workers) {
  Bins bins;
  bins.edges_.resize(x.cols());
  struct Scratch {
    std::vector<float> values;
    std::vector<std::uint64_t> keys;
  };
  std::vector<Scratch> scratch(std::max(1U, workers));
  run_tasks(x.cols(), workers, [&](std::size_t feature, unsigned worker) {
    auto& [values, keys] = scratch[worker];
    values.resize(x.rows());
    for (std::size_t i = 0; i < x.rows(); ++i) values[i] = x.data()[i * x.cols() + feature];
    radix_sort(values, keys);
    bins.edges_[feature] = edges_of(values);
  });
  return bins;
}

std::vector<std::uint16_t> Bins::columns(MatrixView<const float> x, unsigned workers) const {
  std::vector<std::uint16_t> columns(x.rows() * x.cols());
  constexpr std::size_t kRows = 16384;  // per task: few features alone would not share out evenly
  const std::size_t blocks = (x.rows() + kRows - 1) / kRows;
  run_tasks(x.cols() * blocks, workers, [&](std::size_t task, unsigned) {
    const std::size_t feature = task / blocks, begin = task % blocks * kRows;
    const PaddedEdges edges = padded(edges_[feature]);
    std::uint16_t* out = columns.data() + feature * x.rows();
    for (std::size_t i = begin; i < std::min(x.rows(), begin + kRows); ++i)
      out[i] = bin_of(edges.data(), x.data()[i * x.cols() + feature]);
  });
  return columns;
}

void Bins::rows(MatrixView<const float> x, std::span<std::uint16_t> out) const {
  for (std::size_t feature = 0; feature < x.cols(); ++feature) {
    const PaddedEdges edges = padded(edges_[feature]);
    for (std::size_t i = 0; i < x.rows(); ++i)
      out[i * x.cols() + feature] = bin_of(edges.data(), x.data()[i * x.cols() + feature]);
  }
}

}  // namespace oubli
