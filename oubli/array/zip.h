#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/array/tensor.h"

namespace oubli {

// The part of the ZIP format that .npz files use: stored and deflated entries, zip64. Non-goals:
// encryption, several disks, other compressions.
//
// What is trusted: nothing. The directory must end where its end record says; every entry's header
// and data must lie before the directory and not overlap another's; names must be unique. Names
// are keys, never paths.
struct ZipEntry {
  std::string name;
  std::uint16_t method = 0;  // 0 stored, 8 deflated
  std::uint32_t crc = 0;
  std::uint64_t size = 0;  // unpacked
  std::span<const std::byte> packed;
  std::span<const std::byte> local_header;      // with name and extra field
  std::span<const std::byte> directory_record;  // with name, extra field and comment
};

class ZipArchive {
 public:
  ZipArchive(std::span<const std::byte> bytes, std::string what);
  [[nodiscard]] const std::vector<ZipEntry>& entries() const { return entries_; }
  [[nodiscard]] const std::string& comment() const { return comment_; }
  [[nodiscard]] const ZipEntry* find(std::string_view name) const;

 private:
  std::vector<ZipEntry> entries_;
  std::string comment_;
};

// An entry's content: its packed bytes themselves, or what they unpack to. The check sum is
// verified. An entry that would unpack to more than 64 MiB + 16 times its packed size is refused,
// so that a small file cannot ask for much; what unpacks to more than kUnpackInMemory goes to a
// file instead. `packed` are the entry's bytes and whose they are.
inline constexpr std::size_t kUnpackInMemory = std::size_t{16} << 20;
[[nodiscard]] SharedTensor unpack(const ZipEntry& entry, const SharedTensor& packed);
// The same for whoever keeps the archive alive. `mapped`: it is a file, of which only what was just
// read counts as memory in use.
[[nodiscard]] SharedTensor unpack(const ZipEntry& entry, const std::string& what,
                                  bool mapped = false);
// At most `limit` bytes of its beginning, unverified.
[[nodiscard]] std::vector<std::byte> unpack_beginning(const ZipEntry& entry, std::size_t limit,
                                                      const std::string& what);

}  // namespace oubli
