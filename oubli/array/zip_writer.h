#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "oubli/array/zip.h"
#include "oubli/base/file.h"

namespace oubli {

// Bytes of an entry. Of mapped ones only what is being written counts as memory in use.
struct ZipPiece {
  std::span<const std::byte> bytes;
  bool mapped = false;
};

// Writes an archive to `out`, which the caller commits. The same calls give the same bytes.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& out) : out_(out) {}
  // `pieces` are concatenated. `stamp` is the MS-DOS time (low half) and date; the default, the
  // beginning of 1980, is what NumPy writes.
  void add(const std::string& name, std::span<const std::span<const std::byte>> pieces,
           bool deflate, std::uint32_t stamp = 0x0021'0000);
  // The entry as it is: packed bytes, times, attributes, extra fields, comment.
  void copy(const ZipEntry& entry);
  // As PyTorch does: stored; the data begins at a multiple of 64, behind a padded extra field;
  // check sum and sizes follow it. Returns the check sum.
  std::uint32_t add_aligned(const std::string& name, std::span<const ZipPiece> pieces);
  // `always_wide`: with zip64's end records even where nothing needs them, as PyTorch does.
  void finish(const std::string& comment = {}, bool always_wide = false);

 private:
  AtomicFile& out_;
  std::string directory_;
  std::uint64_t count_ = 0;
};

}  // namespace oubli
