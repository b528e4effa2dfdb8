#include "oubli/base/random.h"

#include <cmath>
#include <numbers>

namespace oubli {
namespace {

// One round constant pair and multiplier pair per half, from the Philox paper.
constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::uint32_t key0,
                                    std::uint32_t key1) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0,
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1,
               static_cast<std::uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

// SplitMix64's finaliser: a bijection whose every output bit depends on every input bit.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::uint64_t task) : seed_(seed), task_(task) {}

void RandomStream::refill() {
  block_ =
      philox({static_cast<std::uint32_t>(position_), static_cast<std::uint32_t>(position_ >> 32),
              static_cast<std::uint32_t>(task_), static_cast<std::uint32_t>(task_ >> 32)},
             static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32));
  ++position_;
  used_ = 0;
}

std::uint32_t RandomStream::next_u32() {
  if (used_ == block_.size()) refill();
  return block_[used_++];
}

std::uint64_t RandomStream::next_u64() {
  const std::uint64_t low = next_u32();
  return low | (std::uint64_t{next_u32()} << 32);
}

double RandomStream::uniform() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }

std::uint64_t RandomStream::below(std::uint64_t bound) {
  // Reject the first 2^64 mod bound values, so that every residue is equally likely.
  const std::uint64_t reject_below = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t x = next_u64();
    if (x >= reject_below) return x % bound;
  }
}

double RandomStream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_normal_;
  }
  const double radius = std::sqrt(-2 * std::log1p(-uniform()));  // 1 - u is never 0
  const double angle = 2 * std::numbers::pi * uniform();
  spare_normal_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

std::uint64_t task_id(std::string_view purpose, std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t hash = mix(purpose.size());
  for (const char c : purpose) hash = mix(hash ^ static_cast<unsigned char>(c));
  for (const std::uint64_t number : numbers) hash = mix(hash ^ mix(number));
  return hash;
}

}  // namespace oubli
