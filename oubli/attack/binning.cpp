#include "oubli/attack/binning.h"

#include <algorithm>
#include <array>
#include <limits>

#include "oubli/attack/radix_sort.h"

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

using PaddedEdges = std::array<float, kBins>;

// The number of edges below each value, by halving without branches, for many values side by side:
// the steps of one wait for each other. `edges` are filled up with infinity.
void find_bins(const PaddedEdges& edges, const float* values, std::size_t stride, std::size_t count,
               std::uint16_t* out, std::size_t out_stride) {
  constexpr std::size_t kTogether = 8;
  for (std::size_t begin = 0; begin < count; begin += kTogether) {
    const std::size_t many = std::min(kTogether, count - begin);
    std::array<float, kTogether> value{};
    std::array<std::uint32_t, kTogether> base{};
    for (std::size_t j = 0; j < many; ++j) value[j] = values[(begin + j) * stride];
    for (std::uint32_t step = kBins / 2; step > 0; step /= 2)
      for (std::size_t j = 0; j < kTogether; ++j)
        base[j] += edges[base[j] + step - 1] < value[j] ? step : 0;
    for (std::size_t j = 0; j < many; ++j)
      out[(begin + j) * out_stride] = static_cast<std::uint16_t>(base[j]);
  }
}

PaddedEdges padded(std::span<const float> edges) {
  PaddedEdges result;
  result.fill(std::numeric_limits<float>::infinity());
  std::ranges::copy(edges, result.begin());
  return result;
}

}  // namespace

Bins Bins::fit(MatrixView<const float> x, Team& team) {
  Bins bins;
  bins.edges_.resize(x.cols());
  struct Scratch {
    std::vector<float> values;
    std::vector<std::uint64_t> keys;
  };
  std::vector<Scratch> scratch(team.workers());
  team.run(x.cols(), [&](std::size_t feature, unsigned worker) {
    auto& [values, keys] = scratch[worker];
    values.resize(x.rows());
    for (std::size_t i = 0; i < x.rows(); ++i) values[i] = x.data()[i * x.cols() + feature];
    radix_sort(values, keys);
    bins.edges_[feature] = edges_of(values);
  });
  return bins;
}

std::vector<std::uint16_t> Bins::columns(MatrixView<const float> x, Team& team) const {
  std::vector<std::uint16_t> columns(x.rows() * x.cols());
  constexpr std::size_t kRows = 16384;  // per task: few features alone would not share out evenly
  const std::size_t blocks = (x.rows() + kRows - 1) / kRows;
  team.run(x.cols() * blocks, [&](std::size_t task, unsigned) {
    const std::size_t feature = task / blocks, begin = task % blocks * kRows;
    find_bins(padded(edges_[feature]), x.data() + begin * x.cols() + feature, x.cols(),
              std::min(kRows, x.rows() - begin), columns.data() + feature * x.rows() + begin, 1);
  });
  return columns;
}

void Bins::rows(MatrixView<const float> x, std::span<std::uint16_t> out) const {
  for (std::size_t feature = 0; feature < x.cols(); ++feature) {
    find_bins(padded(edges_[feature]), x.data() + feature, x.cols(), x.rows(), out.data() + feature,
              x.cols());
  }
}

}  // namespace oubli
