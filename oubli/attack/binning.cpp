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

// `sorted`: keys of all values, ascending.
std::vector<float> edges_of(std::span<const std::uint32_t> sorted) {
  std::size_t distinct = 1;
  for (std::size_t i = 1; i < sorted.size(); ++i) distinct += sorted[i] != sorted[i - 1] ? 1U : 0U;
  std::vector<float> edges;
  if (distinct <= kBins) {
    for (std::size_t i = 1; i < sorted.size(); ++i)
      if (sorted[i] != sorted[i - 1])
        edges.push_back(between(value_of_key(sorted[i - 1]), value_of_key(sorted[i])));
    return edges;
  }
  for (std::size_t b = 1; b < kBins; ++b) {
    // The end of the run of equal values in which the quantile falls.
    const std::uint32_t key = sorted[b * sorted.size() / kBins - 1];
    const auto next = std::ranges::upper_bound(sorted, key);
    if (next == sorted.end()) break;
    const float edge = between(value_of_key(key), value_of_key(*next));
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

Bins Bins::fit(MatrixView<const float> columns, Team& team) {
  Bins bins;
  bins.edges_.resize(columns.rows());
  for_each_sorted_column<std::uint32_t>(
      columns.rows(), columns.cols(), team,
      [&](std::size_t feature, std::size_t first, std::span<std::uint32_t> keys) {
        std::ranges::transform(columns.row(feature).subspan(first, keys.size()), keys.begin(),
                               order_key);
      },
      [&](std::size_t feature, std::span<const std::uint32_t> sorted, std::size_t,
          std::size_t end) {
        if (end == sorted.size()) bins.edges_[feature] = edges_of(sorted);
      });
  return bins;
}

Matrix<std::uint16_t> Bins::columns(MatrixView<const float> columns, Team& team) const {
  const std::size_t points = columns.cols();
  auto binned = Matrix<std::uint16_t>::for_overwrite(columns.rows(), points);
  constexpr std::size_t kPoints = 16384;  // per task: few features alone would not share out evenly
  const std::size_t blocks = (points + kPoints - 1) / kPoints;
  team.run(columns.rows() * blocks, [&](std::size_t task, unsigned) {
    const std::size_t feature = task / blocks, begin = task % blocks * kPoints;
    find_bins(padded(edges_[feature]), columns.row(feature).data() + begin, 1,
              std::min(kPoints, points - begin), binned.row(feature).data() + begin, 1);
  });
  return binned;
}

void Bins::rows(MatrixView<const float> x, std::span<std::uint16_t> out) const {
  for (std::size_t feature = 0; feature < x.cols(); ++feature) {
    find_bins(padded(edges_[feature]), x.data() + feature, x.cols(), x.rows(), out.data() + feature,
              x.cols());
  }
}

}  // namespace oubli
