#include "oubli/attack/radix_sort.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

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

template <typename Key>
void for_each_sorted_column(
    std::size_t columns, std::size_t rows, Team& team,
    const std::function<void(std::size_t column, std::size_t first, std::span<Key> keys)>& fill,
    const std::function<void(std::size_t column, std::span<const Key> sorted)>& use) {
  const std::size_t halved = columns % team.workers(), whole = columns - halved;
  struct Buffers {
    std::vector<Key> keys, sorted;
  };
  std::vector<Buffers> of_worker(team.workers()), of_halved(halved);
  for (Buffers& buffers : of_halved) {
    buffers.keys.resize(rows);
    buffers.sorted.resize(rows);
  }
  const auto sort_rows = [&](std::size_t column, std::size_t first, std::size_t count,
                             Buffers& buffers) {
    const auto keys = std::span(buffers.keys).subspan(first, count);
    fill(column, first, keys);
    radix_sort(keys, std::span(buffers.sorted).subspan(first, count));
  };
  team.run(whole + 2 * halved, [&](std::size_t task, unsigned worker) {
    if (task < whole) {
      Buffers& buffers = of_worker[worker];
      buffers.keys.resize(rows);
      buffers.sorted.resize(rows);
      sort_rows(task, 0, rows, buffers);
      use(task, buffers.sorted);
    } else {
      const std::size_t n = (task - whole) / 2, half = (task - whole) % 2;
      const std::size_t first = half * (rows / 2);
      sort_rows(whole + n, first, half == 0 ? rows / 2 : rows - first, of_halved[n]);
    }
  });
  team.run(halved, [&](std::size_t n, unsigned) {
    auto& [keys, sorted] = of_halved[n];
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(rows / 2);
    std::merge(sorted.begin(), middle, middle, sorted.end(), keys.begin());
    use(whole + n, keys);
  });
}

template void for_each_sorted_column<std::uint32_t>(
    std::size_t, std::size_t, Team&,
    const std::function<void(std::size_t, std::size_t, std::span<std::uint32_t>)>&,
    const std::function<void(std::size_t, std::span<const std::uint32_t>)>&);
template void for_each_sorted_column<std::uint64_t>(
    std::size_t, std::size_t, Team&,
    const std::function<void(std::size_t, std::size_t, std::span<std::uint64_t>)>&,
    const std::function<void(std::size_t, std::span<const std::uint64_t>)>&);

}  // namespace oubli
