#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "oubli/base/file.h"

namespace oubli {

// Places of a file that get other bytes, while its length and every other byte stay. Places may be
// named in any order; they must lie inside the file and apart from each other.
class Patches {
 public:
  // A few bytes, kept here.
  void put(std::uint64_t offset, std::span<const std::byte> bytes);
  // Many, which the caller keeps until the copy is written.
  void put_view(std::uint64_t offset, std::span<const std::byte> bytes);
  void zero(std::uint64_t offset, std::uint64_t count);
  // All of another list, `by` further back.
  void put_shifted(const Patches& others, std::uint64_t by);

  [[nodiscard]] bool empty() const { return patches_.empty(); }
  // Whether a place that changes lies in [offset, offset + count).
  [[nodiscard]] bool touch(std::uint64_t offset, std::uint64_t count) const;
  // Part of the changed file.
  [[nodiscard]] std::vector<std::byte> read(std::span<const std::byte> original,
                                            std::uint64_t offset, std::uint64_t count) const;
  // The changed file from beginning to end, piece by piece; pieces live until the call returns.
  template <typename Take>
  void for_each_piece(std::span<const std::byte> original, Take take) const;
  // Appends it to `out`, which the caller commits. Of a mapped file, what is copied no longer
  // counts as memory in use.
  void write_copy(std::span<const std::byte> original, AtomicFile& out) const;
  void write_copy(const MappedFile& original, AtomicFile& out) const;

 private:
  struct Patch {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    std::vector<std::byte> own;
    std::span<const std::byte> view;  // neither: zeros
  };
  void add(Patch patch);
  // Error{bug} if two overlap or one lies outside.
  void check(std::size_t size) const;
  // At most a megabyte of what the place gets, from `at` on.
  [[nodiscard]] static std::span<const std::byte> piece(const Patch& patch, std::uint64_t at);

  std::vector<Patch> patches_;  // by offset
};

template <typename Take>
void Patches::for_each_piece(std::span<const std::byte> original, Take take) const {
  check(original.size());
  std::uint64_t at = 0;
  const auto copy_until = [&](std::uint64_t end) {
    while (at < end) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(end - at, 1U << 20));
      take(original.subspan(static_cast<std::size_t>(at), count));
      at += count;
    }
  };
  for (const Patch& patch : patches_) {
    copy_until(patch.offset);
    for (std::uint64_t done = 0; done < patch.count;) {
      const auto bytes = piece(patch, done);
      take(bytes);
      done += bytes.size();
    }
    at += patch.count;
  }
  copy_until(original.size());
}

}  // namespace oubli
