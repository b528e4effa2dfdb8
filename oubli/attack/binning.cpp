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
std::vector<float> edges_of(std::span<const std::uint32_t> sorted, std::size_t most) {
  std::size_t distinct = 1;
  for (std::size_t i = 1; i < sorted.size(); ++i) distinct += sorted[i] != sorted[i - 1] ? 1U : 0U;
  std::vector<float> edges;
  if (distinct <= most) {
    for (std::size_t i = 1; i < sorted.size(); ++i)
      if (sorted[i] != sorted[i - 1])
        edges.push_back(between(value_of_key(sorted[i - 1]), value_of_key(sorted[i])));
    return edges;
  }
  for (std::size_t b = 1; b < most; ++b) {
    // The end of the run of equal values in which the quantile falls.
    const std::uint32_t key = sorted[b * sorted.size() / most - 1];
    const auto next = std::ranges::upper_bound(sorted, key);
    if (next == sorted.end()) break;
    const float edge = between(value_of_key(key), value_of_key(*next));
    if (edges.empty() || edge > edges.back()) edges.push_back(edge);
  }
  return edges;
}

// In rows, filled up with infinity; and the last edge of every row.
constexpr std::size_t kRows = 32, kInRow = kBins / kRows;
struct PaddedEdges {
  alignas(64) std::array<float, kBins> all;
  alignas(64) std::array<float, kRows> last;
};

// How many edges are below the value: without branches, in whole vectors.
template <std::size_t count>
std::uint32_t count_below(const float* edges, float value) {
  std::uint32_t below = 0;
  for (std::size_t i = 0; i < count; ++i) below += edges[i] < value ? 1U : 0U;
  return below;
}

// The row in which a value falls, then its place there.
void find_bins(const PaddedEdges& edges, const float* values, std::size_t stride, std::size_t count,
               std::uint16_t* out, std::size_t out_stride) {
  for (std::size_t i = 0; i < count; ++i) {
    const float value = values[i * stride];
    // Less than kRows: there are fewer edges than bins, so the last one is infinity.
    const std::uint32_t row = count_below<kRows>(edges.last.data(), value);
    const std::uint32_t place = count_below<kInRow>(edges.all.data() + row * kInRow, value);
    out[i * out_stride] = static_cast<std::uint16_t>(row * kInRow + place);
  }
}

PaddedEdges padded(std::span<const float> edges) {
  PaddedEdges result;
  result.all.fill(std::numeric_limits<float>::infinity());
  std::ranges::copy(edges, result.all.begin());
  for (std::size_t row = 0; row < kRows; ++row)
    result.last[row] = result.all[row * kInRow + kInRow - 1];
  return result;
}

}  // namespace

Bins Bins::fit(MatrixView<const float> columns, Team& team, std::size_t most) {
  OUBLI_ASSERT(most > 0 && most <= kMostBins);
  Bins bins;
  bins.edges_.resize(columns.rows());
  for_each_sorted_column(
      columns.rows(), columns.cols(), team,
      [&](std::size_t feature, std::size_t first, std::span<std::uint32_t> keys) {
        std::ranges::transform(columns.row(feature).subspan(first, keys.size()), keys.begin(),
                               order_key);
      },
      [&](std::size_t feature, std::span<const std::uint32_t> sorted, std::size_t,
          std::size_t end) {
        if (end == sorted.size()) bins.edges_[feature] = edges_of(sorted, most);
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
