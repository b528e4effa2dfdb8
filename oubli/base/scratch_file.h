#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace oubli {

// Bytes that are too many for memory, in a file without a name in the folder for temporary files:
// written once, then read from a mapping. It is gone with the object, however the process ends.
class ScratchFile {
 public:
  // `purpose` is for messages, e.g. "features of mnist".
  explicit ScratchFile(std::string purpose);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  // Error{io} if there is no room for them.
  void write(std::span<const std::byte> bytes);
  // Ends writing. What was read of them can be given back with release_pages().
  std::span<const std::byte> map();
  // Empty before map().
  [[nodiscard]] std::span<const std::byte> bytes() const { return mapped_; }

 private:
  std::string purpose_;
  std::size_t size_ = 0;
  int descriptor_ = -1;
  std::span<const std::byte> mapped_;
};

}  // namespace oubli
