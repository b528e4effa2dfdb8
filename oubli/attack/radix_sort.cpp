#include "oubli/attack/radix_sort.h"

#include <array>
#include <bit>
#include <utility>

#include "oubli/base/error.h"

namespace oubli {
namespace {

constexpr unsigned kDigit = 11;
constexpr std::uint32_t kMask = (1U << kDigit) - 1;

// Unsigned integers in the order of the floats.
std::uint32_t key_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value + 0.0F);
  return bits ^ ((bits >> 31) != 0 ? 0xFFFFFFFFU : 0x80000000U);
}

float value_of(std::uint32_t key) {
  return std::bit_cast<float>(key ^ ((key >> 31) != 0 ? 0x80000000U : 0xFFFFFFFFU));
}

// Sorts by the upper 32 bits; `first` and `second` are of equal size, the result is in `second`.
void sort_pairs(std::uint64_t* first, std::uint64_t* second, std::size_t count) {
  std::array<std::array<std::uint32_t, 1U << kDigit>, 3> starts{};
  for (std::size_t i = 0; i < count; ++i) {
    const auto key = static_cast<std::uint32_t>(first[i] >> 32);
    ++starts[0][key & kMask];
    ++starts[1][(key >> kDigit) & kMask];
    ++starts[2][key >> (2 * kDigit)];
  }
  for (unsigned digit = 0; digit < 3; ++digit) {
    std::uint32_t sum = 0;
    for (std::uint32_t& start : starts[digit]) sum += std::exchange(start, sum);
    const unsigned shift = 32 + digit * kDigit;
    for (std::size_t i = 0; i < count; ++i)
      second[starts[digit][(first[i] >> shift) & kMask]++] = first[i];
    std::swap(first, second);
  }
}

}  // namespace

void radix_sort(std::span<float> values, std::vector<std::uint64_t>& scratch) {
  const std::size_t count = values.size();
  scratch.resize(2 * count);
  for (std::size_t i = 0; i < count; ++i)
    scratch[i] = static_cast<std::uint64_t>(key_of(values[i])) << 32;
  sort_pairs(scratch.data(), scratch.data() + count, count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = value_of(static_cast<std::uint32_t>(scratch[count + i] >> 32));
}

std::vector<std::uint32_t> radix_order(const float* values, std::size_t count, std::size_t stride,
                                       std::vector<std::uint64_t>& scratch) {
  OUBLI_ASSERT(count < 0xFFFFFFFFU);
  scratch.resize(2 * count);
  for (std::size_t i = 0; i < count; ++i)
    scratch[i] = static_cast<std::uint64_t>(key_of(values[i * stride])) << 32 | i;
  sort_pairs(scratch.data(), scratch.data() + count, count);
  std::vector<std::uint32_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::uint32_t>(scratch[count + i]);
  return order;
}

}  // namespace oubli
