#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace oubli {

// SHA-256, fed in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256& other);  // has been fed the same
  Sha256& operator=(const Sha256&) = delete;
  void update(std::span<const std::byte> bytes);
  // 64 lower-case hexadecimal digits. Ends the computation.
  [[nodiscard]] std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] std::string sha256_hex(std::span<const std::byte> bytes);
// Of a mapped file: memory stays flat, because what was read is given back.
[[nodiscard]] std::string sha256_of_mapped(std::span<const std::byte> mapped);
[[nodiscard]] std::string sha256_file(const std::filesystem::path& path);

// Where the digest of some bytes stood every so many of them. A file that begins with the same
// bytes is compared with them as far as they agree, which is several times as fast, and digested
// from there on. `known` must be of a MappedFile; what was compared does not stay in memory.
struct DigestTrail {
  std::vector<Sha256> states;
};
[[nodiscard]] std::string sha256_of_mapped(std::span<const std::byte> mapped, DigestTrail& trail);
[[nodiscard]] std::string sha256_file(const std::filesystem::path& path,
                                      std::span<const std::byte> known, const DigestTrail& trail);

}  // namespace oubli
