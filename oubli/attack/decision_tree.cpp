#include "oubli/attack/decision_tree.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <numeric>

#include "oubli/attack/binning.h"
#include "oubli/base/error.h"

namespace oubli {
namespace {

// Nodes of at least so many rows look at 256 coarse bins, four fine ones each; smaller nodes at the
// fine ones, of which they fill few.
constexpr std::size_t kCoarseRows = 512;
constexpr std::size_t kCoarseBins = 256;
constexpr unsigned kCoarseShift = std::countr_zero(Bins::kMostBins / kCoarseBins);

// A row in a node: how often it was drawn, and the same again if its label is 1.
struct Entry {
  std::uint32_t row;
  std::uint16_t weight;
  std::uint16_t ones;
};

// Weight in the lower half, that of label 1 in the upper half: one addition counts both.
using Count = std::uint64_t;
Count count_of(const Entry& entry) { return static_cast<Count>(entry.ones) << 32 | entry.weight; }
double weight_of(Count count) { return static_cast<double>(static_cast<std::uint32_t>(count)); }
double ones_of(Count count) { return static_cast<double>(count >> 32); }

struct Split {
  // Merit as a fraction, compared by cross-multiplication.
  double numerator = -1;
  double denominator = 1;
  std::size_t feature = 0;
  std::uint16_t bin = 0;
  Count left = 0;
};

// Counts per bin of one feature in one node, with a bit set for every bin that is not empty, and
// one for every word of such bits: small nodes cost what they hold and not the number of bins.
class Histogram {
 public:
  void fill(std::span<const Entry> entries, const std::uint16_t* column, unsigned shift) {
    if (shift != 0) {  // many rows, few bins: cheaper to look at every bin afterwards
      for (const Entry& entry : entries)
        counts_[static_cast<unsigned>(column[entry.row]) >> shift] += count_of(entry);
      for (std::size_t bin = 0; bin < kCoarseBins; ++bin)
        used_[bin / 64] |= static_cast<std::uint64_t>(counts_[bin] != 0) << (bin % 64);
      words_ = (std::uint64_t{1} << (kCoarseBins / 64)) - 1;
      return;
    }
    std::uint64_t words = 0;
    for (const Entry& entry : entries) {
      const unsigned bin = column[entry.row];
      counts_[bin] += count_of(entry);
      used_[bin / 64] |= std::uint64_t{1} << (bin % 64);
      words |= std::uint64_t{1} << (bin / 64);
    }
    words_ = words;
  }

  // Calls visit(bin, count) for the bins in use, in order, and empties them.
  template <typename Visit>
  void drain(const Visit& visit) {
    for (; words_ != 0; words_ &= words_ - 1) {
      const auto word = static_cast<std::size_t>(std::countr_zero(words_));
      for (std::uint64_t bits = used_[word]; bits != 0; bits &= bits - 1) {
        const std::size_t bin = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
        visit(bin, counts_[bin]);
        counts_[bin] = 0;
      }
      used_[word] = 0;
    }
  }

 private:
  static_assert(Bins::kMostBins / 64 <= 64);
  std::array<Count, Bins::kMostBins> counts_{};
  std::array<std::uint64_t, Bins::kMostBins / 64> used_{};
  std::uint64_t words_ = 0;
};

// Gini gain of splitting (w, o) into (l, p) and (r, q), weights and weights of label 1, grows with
// p^2 / l + q^2 / r = (p^2 r + q^2 l) / (l r). Returns false if the feature is constant in the
// node.
bool try_feature(Histogram& histogram, std::span<const Entry> entries, const std::uint16_t* column,
                 unsigned shift, std::size_t feature, Count total, Split& best) {
  histogram.fill(entries, column, shift);
  constexpr std::size_t kNone = Bins::kMostBins;
  const double w = weight_of(total), o = ones_of(total);
  Count left = 0;
  std::size_t last = kNone;
  bool varies = false;
  histogram.drain([&](std::size_t bin, Count count) {
    if (last != kNone) {
      varies = true;
      const double l = weight_of(left), p = ones_of(left);
      const double r = w - l, q = o - p;
      const double numerator = p * p * r + q * q * l, denominator = l * r;
      if (numerator * best.denominator > best.numerator * denominator)
        best = {.numerator = numerator,
                .denominator = denominator,
                .feature = feature,
                // the last fine bin of the middle one
                .bin = static_cast<std::uint16_t>((((last + bin - 1) / 2 + 1) << shift) - 1),
                .left = left};
    }
    left += count;
    last = bin;
  });
  return varies;
}

// Uniform in {0, ..., bound - 1} up to 2^-32 bound: enough to choose a feature, and cheap.
std::size_t choose(RandomStream& random, std::size_t bound) {
  return static_cast<std::size_t>(static_cast<std::uint64_t>(random.next_u32()) * bound >> 32);
}

// The rows that count, and what they weigh together.
Count fill_entries(const BinnedData& data, std::span<const std::uint16_t> weights,
                   std::vector<Entry>& entries) {
  entries.clear();
  entries.reserve(data.rows);
  Count all = 0;
  for (std::uint32_t row = 0; row < data.rows; ++row) {
    if (weights[row] == 0) continue;
    entries.push_back({row, weights[row], data.labels[row] != 0 ? weights[row] : std::uint16_t{0}});
    all += count_of(entries.back());
  }
  OUBLI_ASSERT(!entries.empty());
  return all;
}

// Entries up to `bin` come first, in their order, then the others in theirs. Returns how many do.
std::size_t partition(std::span<Entry> node, const std::uint16_t* column, std::uint16_t bin,
                      std::vector<Entry>& right) {
  std::size_t to_left = 0, to_right = 0;
  for (const Entry entry : node) {
    node[to_left] = entry;
    right[to_right] = entry;
    const bool goes_left = column[entry.row] <= bin;
    to_left += goes_left ? 1 : 0;
    to_right += goes_left ? 0 : 1;
  }
  std::copy_n(right.begin(), to_right, node.begin() + static_cast<std::ptrdiff_t>(to_left));
  return to_left;
}

// A node that is not split yet.
struct Task {
  std::uint32_t node;
  std::uint32_t begin, end;  // of its entries
  std::uint32_t depth;
  Count total;
};

}  // namespace

struct TreeBuffers::Content {
  std::vector<Entry> entries, right;
  std::vector<Task> tasks;
  Histogram histogram;  // empty between nodes
};

TreeBuffers::TreeBuffers() : content_(std::make_unique<Content>()) {}
TreeBuffers::~TreeBuffers() = default;
TreeBuffers::TreeBuffers(TreeBuffers&&) noexcept = default;
TreeBuffers& TreeBuffers::operator=(TreeBuffers&&) noexcept = default;

DecisionTree DecisionTree::fit(const BinnedData& data, std::span<const std::uint16_t> weights,
                               const DecisionTreeOptions& options, RandomStream& random,
                               TreeBuffers& buffers) {
  auto& [entries, right, tasks, histogram] = *buffers.content_;
  const Count all = fill_entries(data, weights, entries);
  right.resize(data.rows);
  std::vector<std::uint16_t> features(data.features);
  std::iota(features.begin(), features.end(), std::uint16_t{0});
  std::vector<bool> is_fine(data.features);  // has more bins than the coarse ones
  for (std::size_t f = 0; f < data.features; ++f)
    is_fine[f] = std::any_of(data.column(f), data.column(f) + data.rows,
                             [](std::uint16_t bin) { return bin >= kCoarseBins; });

  DecisionTree tree;
  tree.nodes_.resize(1);
  tree.probability_.resize(1);
  tasks.assign(1, {0, 0, static_cast<std::uint32_t>(entries.size()), 0, all});
  while (!tasks.empty()) {
    const Task task = tasks.back();
    tasks.pop_back();
    const double w = weight_of(task.total), ones = ones_of(task.total);
    tree.probability_[task.node] = static_cast<float>(ones / w);
    tree.nodes_[task.node].child = task.node;
    tree.depth_ = std::max<std::size_t>(tree.depth_, task.depth);
    if (ones == 0 || ones == w || (options.max_depth != 0 && task.depth >= options.max_depth))
      continue;

    const std::span<Entry> node = std::span(entries).subspan(task.begin, task.end - task.begin);
    Split best;
    bool varies = false;
    for (std::size_t tried = 0; tried < data.features && (tried < options.max_features || !varies);
         ++tried) {
      std::swap(features[tried], features[tried + choose(random, data.features - tried)]);
      const std::size_t feature = features[tried];
      const unsigned shift = node.size() >= kCoarseRows && is_fine[feature] ? kCoarseShift : 0;
      varies |=
          try_feature(histogram, node, data.column(feature), shift, feature, task.total, best);
    }
    if (!varies) continue;

    const std::size_t to_left = partition(node, data.column(best.feature), best.bin, right);
    const auto child = static_cast<std::uint32_t>(tree.nodes_.size());
    tree.nodes_[task.node] = {child, static_cast<std::uint16_t>(best.feature), best.bin};
    tree.nodes_.resize(child + 2);
    tree.probability_.resize(child + 2);
    const std::uint32_t middle = task.begin + static_cast<std::uint32_t>(to_left);
    tasks.push_back({child + 1, middle, task.end, task.depth + 1, task.total - best.left});
    tasks.push_back({child, task.begin, middle, task.depth + 1, best.left});
  }
  return tree;
}

// Sixteen rows walk down together, so that the processor waits for memory once and not sixteen
// times; rows that have arrived stay in their leaf.
void DecisionTree::add_probability(std::span<const std::uint16_t> rows, std::size_t features,
                                   std::span<float> sums) const {
  constexpr std::size_t kTogether = 16;
  for (std::size_t begin = 0; begin < sums.size(); begin += kTogether) {
    const std::size_t count = std::min(kTogether, sums.size() - begin);
    std::uint32_t at[kTogether] = {};
    const std::uint16_t* row = rows.data() + begin * features;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t i = 0; i < count; ++i) {
        const Node node = nodes_[at[i]];
        const std::uint32_t next =
            node.child + (row[i * features + node.feature] > node.bin ? 1U : 0U);
        moved |= next != at[i];
        at[i] = next;
      }
    }
    for (std::size_t i = 0; i < count; ++i) sums[begin + i] += probability_[at[i]];
  }
}

}  // namespace oubli
