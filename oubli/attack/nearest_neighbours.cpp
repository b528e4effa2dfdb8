#include "oubli/attack/nearest_neighbours.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "oubli/attack/point_blocks.h"
#include "oubli/base/workers.h"

namespace oubli {
namespace {

constexpr std::size_t kTreeFeatures = 15;
constexpr std::size_t kQueriesPerTask = 1024;
constexpr std::size_t kQueriesPerPass =
    32;  // brute force: queries that share a pass over the points

// A training row that counts: equal rows share a point, of which the first k matter.
struct Member {
  std::uint32_t row;
  std::uint8_t label;
};

struct Points {
  Matrix<float> x;                   // distinct points
  std::vector<std::uint32_t> first;  // point -> its members, one entry more than points
  std::vector<Member> members;
};

std::uint64_t hash_row(std::span<const float> row) {
  std::uint64_t hash = 0x9E3779B97F4A7C15;
  for (const float value : row) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0xBF58476D1CE4E5B9;
    hash ^= hash >> 29;
  }
  return hash;
}

Points distinct_points(MatrixView<const float> x, std::span<const std::uint8_t> y, std::size_t k) {
  const std::size_t n = x.rows();
  std::vector<float> values(x.flat().begin(), x.flat().end());
  for (float& value : values) value += 0.0F;  // -0 and 0 are one number but not one bit pattern
  const MatrixView<const float> rows(values.data(), n, x.cols());

  constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  const std::size_t slots = std::bit_ceil(2 * n + 1);
  std::vector<std::uint32_t> table(slots, kNone);  // -> first row with these values
  std::vector<std::uint32_t> point_of(n), count;
  std::vector<std::uint32_t> representative;
  for (std::uint32_t i = 0; i < n; ++i) {
    std::size_t slot = hash_row(rows.row(i)) & (slots - 1);
    while (table[slot] != kNone &&
           !std::ranges::equal(rows.row(representative[table[slot]]), rows.row(i)))
      slot = (slot + 1) & (slots - 1);
    if (table[slot] == kNone) {
      table[slot] = static_cast<std::uint32_t>(representative.size());
      representative.push_back(i);
      count.push_back(0);
    }
    point_of[i] = table[slot];
    if (count[point_of[i]] < k) ++count[point_of[i]];
  }

  Points points{Matrix<float>(representative.size(), x.cols()), {}, {}};
  points.first.resize(count.size() + 1);
  std::partial_sum(count.begin(), count.end(), points.first.begin() + 1);
  points.members.resize(points.first.back());
  std::vector<std::uint32_t> filled(count.size());
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t p = point_of[i];
    if (filled[p] < count[p]) points.members[points.first[p] + filled[p]++] = {i, y[i]};
  }
  for (std::size_t p = 0; p < representative.size(); ++p)
    std::ranges::copy(rows.row(representative[p]), points.x.row(p).begin());
  return points;
}

// The k nearest so far, in order.
class Nearest {
 public:
  struct Found {
    double distance;
    Member member;
    std::uint32_t point;
  };

  explicit Nearest(std::size_t k) : k_(k) { found_.reserve(k + 1); }

  void clear() { found_.clear(); }
  [[nodiscard]] bool full() const { return found_.size() == k_; }
  [[nodiscard]] double worst() const { return found_.back().distance; }

  // False if it was too far.
  bool offer(double distance, Member member, std::uint32_t point) {
    const Found candidate{distance, member, point};
    if (full() && !before(candidate, found_.back())) return false;
    auto place = found_.end();
    while (place != found_.begin() && before(candidate, *(place - 1))) --place;
    found_.insert(place, candidate);
    if (found_.size() > k_) found_.pop_back();
    return true;
  }

  [[nodiscard]] std::span<const Found> found() const { return found_; }
  // The share of label 1 among them, minus 1/2.
  [[nodiscard]] double vote() const {
    std::size_t ones = 0;
    for (const Found& found : found_) ones += found.member.label;
    return (2 * static_cast<double>(ones) - static_cast<double>(found_.size())) /
           (2 * static_cast<double>(found_.size()));
  }

 private:
  static bool before(const Found& a, const Found& b) {
    return a.distance < b.distance || (a.distance == b.distance && a.member.row < b.member.row);
  }
  std::size_t k_;
  std::vector<Found> found_;
};

// The squared distance as it is defined: in double, feature by feature.
double distance_to(std::span<const float> point, const float* query) {
  double sum = 0;
  for (std::size_t f = 0; f < point.size(); ++f) {
    const double difference = static_cast<double>(point[f]) - static_cast<double>(query[f]);
    sum += difference * difference;
  }
  return sum;
}

// An order of the rows in which near ones tend to follow each other: halved again and again along
// the widest feature.
void sort_near_to_near(MatrixView<const float> x, std::span<std::uint32_t> rows) {
  if (rows.size() <= kBlock) return;
  std::size_t widest = 0;
  float width = -1;
  for (std::size_t f = 0; f < x.cols(); ++f) {
    float low = x(rows[0], f), high = low;
    for (const std::uint32_t row : rows) {
      const float value = x.data()[row * x.cols() + f];
      low = std::min(low, value);
      high = std::max(high, value);
    }
    if (high - low > width) {
      width = high - low;
      widest = f;
    }
  }
  const std::size_t half = rows.size() / 2;
  const float* column = x.data() + widest;
  std::nth_element(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(half), rows.end(),
                   [&](std::uint32_t a, std::uint32_t b) {
                     return column[a * x.cols()] < column[b * x.cols()];
                   });
  sort_near_to_near(x, rows.first(half));
  sort_near_to_near(x, rows.subspan(half));
}

std::vector<std::uint32_t> near_to_near(MatrixView<const float> x) {
  std::vector<std::uint32_t> rows(x.rows());
  std::iota(rows.begin(), rows.end(), 0U);
  sort_near_to_near(x, rows);
  return rows;
}

}  // namespace

struct NearestNeighbours::Index {
  // Children are `child` and child + 1; a leaf has child 0 and is a block of points.
  struct Node {
    std::uint32_t child = 0;
    std::uint32_t block = 0;
  };

  std::size_t k;
  std::size_t features;
  unsigned workers;
  Points points;
  std::vector<std::uint32_t> order{};  // place in the blocks -> point
  std::vector<float> blocks{};
  PointKernels kernels = point_kernels();
  std::vector<Node> nodes{};  // root at 0, its sibling 1 unused; empty: brute force
  std::vector<Box> boxes{};   // one per node

  void build();
  void split(std::size_t node, std::size_t begin, std::size_t end);
  void scan(std::size_t block, const float* query, float& bound, Nearest& nearest) const;
  void search_tree(const float* query, float bound, Nearest& nearest) const;
  void score_tree(MatrixView<const float> x, std::span<const std::uint32_t> queries,
                  std::span<double> scores) const;
  void score_all(MatrixView<const float> x, std::size_t begin, std::size_t end,
                 std::span<double> scores) const;
};

void NearestNeighbours::Index::build() {
  const std::size_t n = points.x.rows();
  order.resize(n);
  std::iota(order.begin(), order.end(), 0U);
  if (features <= kTreeFeatures) {
    nodes.resize(2);
    boxes.resize(2);
    split(0, 0, n);
  }
  blocks.assign((n + kBlock - 1) / kBlock * kBlock * features,
                std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < n; ++i) {
    float* block = blocks.data() + i / kBlock * kBlock * features;
    for (std::size_t f = 0; f < features; ++f)
      block[f * kBlock + i % kBlock] = points.x(order[i], f);
  }
}

// Puts the points order[begin, end) under `node`. `begin` is a multiple of the block size, so that
// every block but the last is full.
void NearestNeighbours::Index::split(std::size_t node, std::size_t begin, std::size_t end) {
  Box box{};
  for (std::size_t f = 0; f < features; ++f) box.low[f] = box.high[f] = points.x(order[begin], f);
  for (std::size_t i = begin + 1; i < end; ++i) {
    const float* x = points.x.data() + order[i] * features;
    for (std::size_t f = 0; f < features; ++f) {
      box.low[f] = std::min(box.low[f], x[f]);
      box.high[f] = std::max(box.high[f], x[f]);
    }
  }
  boxes[node] = box;
  const std::size_t node_blocks = (end - begin + kBlock - 1) / kBlock;
  if (node_blocks == 1) {
    nodes[node].block = static_cast<std::uint32_t>(begin / kBlock);
    return;
  }
  std::size_t widest = 0;
  for (std::size_t f = 1; f < features; ++f)
    if (box.high[f] - box.low[f] > box.high[widest] - box.low[widest]) widest = f;
  const std::size_t middle = begin + (node_blocks + 1) / 2 * kBlock;
  const auto at = [&](std::size_t i) { return order.begin() + static_cast<std::ptrdiff_t>(i); };
  const float* column = points.x.data() + widest;
  std::nth_element(at(begin), at(middle), at(end), [&](std::uint32_t a, std::uint32_t b) {
    return column[a * features] < column[b * features];
  });
  const std::size_t child = nodes.size();
  nodes[node].child = static_cast<std::uint32_t>(child);
  nodes.resize(child + 2);
  boxes.resize(child + 2);
  split(child, begin, middle);
  split(child + 1, middle, end);
}

// Offers the points of a block that pass the single-precision filter, at their exact distance.
void NearestNeighbours::Index::scan(std::size_t block, const float* query, float& bound,
                                    Nearest& nearest) const {
  const float* values = blocks.data() + block * kBlock * features;
  std::uint64_t mask = kernels.near(values, query, features, bound);
  for (; mask != 0; mask &= mask - 1) {
    const auto slot = static_cast<std::size_t>(std::countr_zero(mask));
    const std::size_t place = block * kBlock + slot;
    if (place >= order.size()) return;
    const std::uint32_t point = order[place];
    const double distance = distance_to(points.x.row(point), query);
    bool closer = false;
    for (std::uint32_t m = points.first[point]; m < points.first[point + 1]; ++m)
      if (!nearest.offer(distance, points.members[m], point))
        break;
      else
        closer = true;
    if (closer && nearest.full()) bound = std::min(bound, filter_bound(nearest.worst(), features));
  }
}

void NearestNeighbours::Index::search_tree(const float* query, float bound,
                                           Nearest& nearest) const {
  struct Pending {
    float distance;
    std::uint32_t node;
  };
  Pending stack[64];  // deeper than log2 of any number of points
  std::size_t pending = 0;
  std::uint32_t node = 0;
  for (;;) {
    while (nodes[node].child != 0) {
      const std::uint32_t child = nodes[node].child;
      float distances[2];
      kernels.box_distances(&boxes[child], query, distances);
      const std::uint32_t far = distances[0] <= distances[1] ? 1 : 0;
      if (distances[far] <= bound) stack[pending++] = {distances[far], child + far};
      if (distances[1 - far] > bound) goto next;
      node = child + 1 - far;
    }
    scan(nodes[node].block, query, bound, nearest);
  next:
    while (pending > 0 && stack[pending - 1].distance > bound) --pending;
    if (pending == 0) return;
    node = stack[--pending].node;
  }
}

// Queries in an order in which neighbours follow each other: they find the points in the cache, and
// the distances to the last query's neighbours bound their own.
void NearestNeighbours::Index::score_tree(MatrixView<const float> x,
                                          std::span<const std::uint32_t> queries,
                                          std::span<double> scores) const {
  Nearest nearest(k);
  float query[kBoxWidth] = {};
  for (const std::uint32_t q : queries) {
    std::ranges::copy(x.row(q), query);
    float bound = std::numeric_limits<float>::infinity();
    if (nearest.full()) {
      double farthest = 0;
      for (const Nearest::Found& found : nearest.found())
        farthest = std::max(farthest, distance_to(points.x.row(found.point), query));
      bound = filter_bound(farthest, features);
    }
    nearest.clear();
    search_tree(query, bound, nearest);
    scores[q] = nearest.vote();
  }
}

void NearestNeighbours::Index::score_all(MatrixView<const float> x, std::size_t begin,
                                         std::size_t end, std::span<double> scores) const {
  const std::size_t count = (order.size() + kBlock - 1) / kBlock;
  std::vector<Nearest> nearest(end - begin, Nearest(k));
  std::vector<float> bounds(end - begin, std::numeric_limits<float>::infinity());
  for (std::size_t block = 0; block < count; ++block)
    for (std::size_t q = begin; q < end; ++q)
      scan(block, x.row(q).data(), bounds[q - begin], nearest[q - begin]);
  for (std::size_t q = begin; q < end; ++q) scores[q] = nearest[q - begin].vote();
}

NearestNeighbours NearestNeighbours::fit(MatrixView<const float> x, std::span<const std::uint8_t> y,
                                         const Options& options, RandomStream& /*random*/) {
  OUBLI_ASSERT(x.rows() == y.size() && x.rows() > 0 && options.neighbours > 0);
  auto index = std::make_shared<Index>(Index{
      .k = options.neighbours,
      .features = x.cols(),
      .workers = options.workers,
      .points = distinct_points(x, y, options.neighbours),
  });
  index->build();
  return NearestNeighbours(std::move(index));
}

std::vector<double> NearestNeighbours::score(MatrixView<const float> x) const {
  OUBLI_ASSERT(x.cols() == index_->features);
  std::vector<double> scores(x.rows());
  const bool tree = !index_->nodes.empty();
  const std::size_t step = tree ? kQueriesPerTask : kQueriesPerPass;
  const std::vector<std::uint32_t> order = tree ? near_to_near(x) : std::vector<std::uint32_t>{};
  run_tasks((x.rows() + step - 1) / step, index_->workers, [&](std::size_t task, unsigned) {
    const std::size_t begin = task * step, end = std::min(x.rows(), begin + step);
    if (tree)
      index_->score_tree(x, std::span(order).subspan(begin, end - begin), scores);
    else
      index_->score_all(x, begin, end, scores);
  });
  return scores;
}

std::vector<std::uint8_t> NearestNeighbours::predict(MatrixView<const float> x) const {
  return labels_of(score(x));
}

}  // namespace oubli
