#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/base/file.h"

namespace oubli {

// How a file is compressed as a whole, as joblib and gzip do it; deflate, without any header, is
// what entries of zip archives have.
enum class Packing { none, zlib, gzip, deflate };

// By its first bytes.
[[nodiscard]] Packing packing_of(std::string_view start);
// At most `limit` bytes of what it unpacks to; fewer, or none, if it is damaged or cut off.
[[nodiscard]] std::string unpack_start(std::string_view start, std::size_t limit);
// All of it. Error{bad_input} if it is damaged, or would unpack to more than 64 MiB + 16 times its
// size, so that a small file cannot ask for much.
[[nodiscard]] std::vector<std::byte> unpack_stream(std::span<const std::byte> packed,
                                                   const std::string& what);

// Writes such a stream; nothing is compressed if the packing is none.
class PackedWriter {
 public:
  PackedWriter(AtomicFile& out, Packing packing);
  ~PackedWriter();
  PackedWriter(const PackedWriter&) = delete;
  PackedWriter& operator=(const PackedWriter&) = delete;
  void write(std::span<const std::byte> bytes);
  void finish();

 private:
  struct Stream;
  AtomicFile& out_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace oubli
