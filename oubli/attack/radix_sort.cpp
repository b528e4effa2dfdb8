#include "oubli/attack/radix_sort.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/base/error.h"

namespace oubli {
namespace {

constexpr unsigned kDigit = 11;
constexpr unsigned kDigits = 3;
constexpr std::uint32_t kMask = (1U << kDigit) - 1;

template <typename Key>
void sort_keys(std::span<Key> from, std::span<Key> to) {
  OUBLI_ASSERT(from.size() == to.size() && from.size() < 0xFFFFFFFFU);
  constexpr unsigned kShift = 8 * sizeof(Key) - 32;  // of the part that counts
  const std::size_t count = from.size();
  std::array<std::array<std::uint32_t, 1U << kDigit>, kDigits> starts{};
  for (const Key key : from) {
    const auto part = static_cast<std::uint32_t>(key >> kShift);
    ++starts[0][part & kMask];
    ++starts[1][(part >> kDigit) & kMask];
    ++starts[2][part >> (2 * kDigit)];
  }
  Key* first = from.data();
  Key* second = to.data();
  for (unsigned digit = 0; digit < kDigits; ++digit) {  // an odd number: the last one ends in `to`
    std::uint32_t sum = 0;
    for (std::uint32_t& start : starts[digit]) sum += std::exchange(start, sum);
    const unsigned shift = kShift + digit * kDigit;
    for (std::size_t i = 0; i < count; ++i)
      second[starts[digit][(first[i] >> shift) & kMask]++] = first[i];
    std::swap(first, second);
  }
}

}  // namespace

void radix_sort(std::span<std::uint32_t> from, std::span<std::uint32_t> to) { sort_keys(from, to); }
void radix_sort(std::span<std::uint64_t> from, std::span<std::uint64_t> to) { sort_keys(from, to); }

namespace {

// How many of the least `count` keys of two sorted parts are in the first one.
template <typename Key>
std::size_t share_of_first(std::span<const Key> first, std::span<const Key> second,
                           std::size_t count) {
  std::size_t low = count - std::min(count, second.size()), high = std::min(count, first.size());
  while (low < high) {
    const std::size_t taken = (low + high) / 2;
    if (first[taken] < second[count - taken - 1])
      low = taken + 1;
    else
      high = taken;
  }
  return low;
}

// Keys of a column on their way; without values to begin with, so that its worker is the first to
// touch the memory.
template <typename Key>
struct SortBuffers {
  Matrix<Key> keys, sorted;

  void allocate(std::size_t rows) {
    keys = Matrix<Key>::for_overwrite(1, rows);
    sorted = Matrix<Key>::for_overwrite(1, rows);
  }
};

}  // namespace

template <typename Key>
void for_each_sorted_column(
    std::size_t columns, std::size_t rows, Team& team,
    const std::function<void(std::size_t column, std::size_t first, std::span<Key> keys)>& fill,
    const std::function<void(std::size_t column, std::span<const Key> sorted, std::size_t begin,
                             std::size_t end)>& use) {
  const std::size_t halved = columns % team.workers(), whole = columns - halved;
  std::vector<SortBuffers<Key>> of_worker(team.workers()), of_halved(halved);
  for (auto& buffers : of_halved) buffers.allocate(rows);
  const std::size_t middle = rows / 2;
  const auto sort_rows = [&](std::size_t column, std::size_t first, std::size_t count,
                             SortBuffers<Key>& buffers) {
    const std::span keys(buffers.keys.data() + first, count);
    fill(column, first, keys);
    radix_sort(keys, {buffers.sorted.data() + first, count});
  };
  team.run(whole + 2 * halved, [&](std::size_t task, unsigned worker) {
    if (task < whole) {
      SortBuffers<Key>& buffers = of_worker[worker];
      if (buffers.keys.empty()) buffers.allocate(rows);
      sort_rows(task, 0, rows, buffers);
      use(task, buffers.sorted.flat(), 0, rows);
    } else {
      const std::size_t n = (task - whole) / 2, half = (task - whole) % 2;
      sort_rows(whole + n, half * middle, half == 0 ? middle : rows - middle, of_halved[n]);
    }
  });
  team.run(2 * halved, [&](std::size_t task, unsigned) {
    auto& [keys, sorted] = of_halved[task / 2];
    const std::span<const Key> low(sorted.data(), middle),
        high(sorted.data() + middle, rows - middle);
    const std::size_t from_low = share_of_first(low, high, middle), from_high = middle - from_low;
    if (task % 2 == 0)
      std::ranges::merge(low.first(from_low), high.first(from_high), keys.data());
    else
      std::ranges::merge(low.subspan(from_low), high.subspan(from_high), keys.data() + middle);
  });
  team.run(2 * halved, [&](std::size_t task, unsigned) {
    const std::size_t half = task % 2;
    use(whole + task / 2, of_halved[task / 2].keys.flat(), half * middle,
        half == 0 ? middle : rows);
  });
}

template void for_each_sorted_column<std::uint32_t>(
    std::size_t, std::size_t, Team&,
    const std::function<void(std::size_t, std::size_t, std::span<std::uint32_t>)>&,
    const std::function<void(std::size_t, std::span<const std::uint32_t>, std::size_t,
                             std::size_t)>&);
template void for_each_sorted_column<std::uint64_t>(
    std::size_t, std::size_t, Team&,
    const std::function<void(std::size_t, std::size_t, std::span<std::uint64_t>)>&,
    const std::function<void(std::size_t, std::span<const std::uint64_t>, std::size_t,
                             std::size_t)>&);

}  // namespace oubli
