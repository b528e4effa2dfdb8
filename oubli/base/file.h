#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oubli {

// A file mapped read-only. The view stays valid for the object's life. If the file shrinks while
// it is mapped, the program's SIGBUS handler (cli/main.cpp) ends it with a message; if it merely
// changes, check_unchanged() throws.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Throws Error{bad_input} if size or modification time differ from when the file was opened.
  void check_unchanged() const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int descriptor_ = -1;
  std::int64_t modified_ns_ = 0;
};

// The whole file as text; Error{io} if it cannot be read, Error{bad_input} if larger than `limit`.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path,
                                         std::size_t limit = std::size_t{64} << 20);

// A file that appears whole or not at all: bytes go to a temporary beside `path`; commit() syncs
// and renames it into place. Destroyed without commit(), nothing remains. Permissions follow umask
// unless `mode` is given.
class AtomicFile {
 public:
  // replace = false: Error{usage} now, or at commit(), if `path` exists.
  explicit AtomicFile(std::filesystem::path path, bool replace = true, unsigned mode = 0666);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Overwrites bytes already written, e.g. a header whose lengths are known only at the end.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  // Where the bytes are now, for a check of the written file before it is committed. Flushed.
  [[nodiscard]] const std::filesystem::path& temporary_path();
  void commit();
  // All or none: whatever can fail is done for every file before the first gets its name; if one
  // cannot get it all the same, those before it give theirs back, and what they replaced is there
  // again. Error{usage} if a folder or a link that leads nowhere is in a file's place.
  static void commit(std::span<AtomicFile* const> files);

 private:
  void flush();
  void make_ready();
  void take_name(bool revocable);
  void give_back() noexcept;
  void finish();

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::vector<std::byte> buffer_;
  std::uint64_t size_ = 0;
  int descriptor_ = -1;
  bool replace_;
  bool exchanged_ = false;  // the temporary is what was there before
};

// AtomicFile in one call.
void write_file(const std::filesystem::path& path, std::string_view text, bool replace = true,
                unsigned mode = 0666);
void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes,
                bool replace = true, unsigned mode = 0666);

[[nodiscard]] inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
[[nodiscard]] inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace oubli
