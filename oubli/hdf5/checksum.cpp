#include "oubli/hdf5/checksum.h"

#include <array>
#include <bit>
#include <cstring>

namespace oubli {

// [B. Jenkins, "lookup3.c", 2006, hashlittle()], twelve bytes at a time.
std::uint32_t hdf5_checksum(std::span<const std::byte> bytes) {
  const auto start = 0xdeadbeefU + static_cast<std::uint32_t>(bytes.size());
  std::uint32_t a = start;
  std::uint32_t b = start;
  std::uint32_t c = start;
  const auto add = [&](std::span<const std::byte> block) {
    std::array<std::uint32_t, 3> words{};
    std::memcpy(words.data(), block.data(), block.size());
    a += words[0];
    b += words[1];
    c += words[2];
  };
  while (bytes.size() > 12) {
    add(bytes.first(12));
    bytes = bytes.subspan(12);
    a = (a - c) ^ std::rotl(c, 4), c += b;
    b = (b - a) ^ std::rotl(a, 6), a += c;
    c = (c - b) ^ std::rotl(b, 8), b += a;
    a = (a - c) ^ std::rotl(c, 16), c += b;
    b = (b - a) ^ std::rotl(a, 19), a += c;
    c = (c - b) ^ std::rotl(b, 4), b += a;
  }
  if (bytes.empty()) return c;
  add(bytes);
  c = (c ^ b) - std::rotl(b, 14);
  a = (a ^ c) - std::rotl(c, 11);
  b = (b ^ a) - std::rotl(a, 25);
  c = (c ^ b) - std::rotl(b, 16);
  a = (a ^ c) - std::rotl(c, 4);
  b = (b ^ a) - std::rotl(a, 14);
  c = (c ^ b) - std::rotl(b, 24);
  return c;
}

}  // namespace oubli
