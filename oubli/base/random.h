#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

namespace oubli {

// Random numbers addressed by (seed, task): the same pair gives the same numbers on every machine,
// whatever the thread, the order or the number of workers. There is no global generator.
//
// Philox4x32-10 [Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011]: a keyed
// bijection of a 128-bit counter. The seed is the key, the task the upper half of the counter, the
// position the lower half; two different tasks of one seed can therefore never overlap.
//
// The distributions are our own: those of <random> differ between standard libraries.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint64_t task);

  [[nodiscard]] std::uint32_t next_u32();
  [[nodiscard]] std::uint64_t next_u64();
  // Uniform in [0, 1), 53 bits.
  [[nodiscard]] double uniform();
  // Uniform in {0, ..., bound - 1}, without bias; bound > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound);
  // Standard normal (Box-Muller, both values used).
  [[nodiscard]] double normal();

  // Fisher-Yates.
  template <typename T>
  void shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  void refill();

  std::uint64_t seed_;
  std::uint64_t task_;
  std::uint64_t position_ = 0;
  std::array<std::uint32_t, 4> block_{};
  unsigned used_ = 4;
  double spare_normal_ = 0;
  bool has_spare_ = false;
};

// A task number from the words that name it, e.g. task_id("shuffle", {model, epoch}). Different
// words give different numbers except for 64-bit hash collisions.
[[nodiscard]] std::uint64_t task_id(std::string_view purpose,
                                    std::initializer_list<std::uint64_t> numbers = {});

}  // namespace oubli
