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

}  // namespace

void radix_sort(std::span<std::uint32_t> from, std::span<std::uint32_t> to) {
  OUBLI_ASSERT(from.size() == to.size() && from.size() < 0xFFFFFFFFU);
  const std::size_t count = from.size();
  std::array<std::array<std::uint32_t, 1U << kDigit>, kDigits> starts{};
  for (const std::uint32_t key : from) {
    ++starts[0][key & kMask];
    ++starts[1][(key >> kDigit) & kMask];
    ++starts[2][key >> (2 * kDigit)];
  }
  std::uint32_t* first = from.data();
  std::uint32_t* second = to.data();
  for (unsigned digit = 0; digit < kDigits; ++digit) {  // an odd number: the last one ends in `to`
    std::uint32_t sum = 0;
    for (std::uint32_t& start : starts[digit]) sum += std::exchange(start, sum);
    const unsigned shift = digit * kDigit;
    for (std::size_t i = 0; i < count; ++i)
      second[starts[digit][(first[i] >> shift) & kMask]++] = first[i];
    std::swap(first, second);
  }
}

namespace {

// How many of the least `count` keys of two sorted parts are in the first one.
std::size_t share_of_first(std::span<const std::uint32_t> first,
                           std::span<const std::uint32_t> second, std::size_t count) {
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
struct SortBuffers {
  Matrix<std::uint32_t> keys, sorted;

  void allocate(std::size_t rows) {
    keys = Matrix<std::uint32_t>::for_overwrite(1, rows);
    sorted = Matrix<std::uint32_t>::for_overwrite(1, rows);
  }
};

}  // namespace

void for_each_sorted_column(
    std::size_t columns, std::size_t rows, Team& team,
    const std::function<void(std::size_t column, std::size_t first, std::span<std::uint32_t> keys)>&
        fill,
    const std::function<void(std::size_t column, std::span<const std::uint32_t> sorted,
                             std::size_t begin, std::size_t end)>& use) {
  const std::size_t halved = columns % team.workers(), whole = columns - halved;
  std::vector<SortBuffers> of_worker(team.workers()), of_halved(halved);
  for (auto& buffers : of_halved) buffers.allocate(rows);
  const std::size_t middle = rows / 2;
  const auto sort_rows = [&](std::size_t column, std::size_t first, std::size_t count,
                             SortBuffers& buffers) {
    const std::span keys(buffers.keys.data() + first, count);
    fill(column, first, keys);
    radix_sort(keys, {buffers.sorted.data() + first, count});
  };
  team.run(whole + 2 * halved, [&](std::size_t task, unsigned worker) {
    if (task < whole) {
      SortBuffers& buffers = of_worker[worker];
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
    const std::span<const std::uint32_t> low(sorted.data(), middle),
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

}  // namespace oubli
