#include "oubli/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "oubli/base/error.h"

namespace oubli {
namespace {

constexpr std::string_view kTemporaryMark = ".oubli-tmp-";
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

std::string system_reason() { return std::strerror(errno); }

std::int64_t modification_ns(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

int open_for_reading(const std::filesystem::path& path, struct stat& status) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(ErrorCode::io, "{}: cannot open: {}", path.string(), system_reason());
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    fail(ErrorCode::io, "{}: not a regular file", path.string());
  }
  return descriptor;
}

void write_all(int descriptor, std::span<const std::byte> bytes,
               const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(ErrorCode::io, "{}: cannot write: {}", path.string(), system_reason());
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

// "dir/.NAME.oubli-tmp-PID-N": hidden, on the same file system as its target, and its owner can be
// told from the name.
std::filesystem::path temporary_name(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter{0};
  return path.parent_path() / fmt::format(".{}{}{}-{}", path.filename().string(), kTemporaryMark,
                                          ::getpid(), counter.fetch_add(1));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  struct stat status {};
  descriptor_ = open_for_reading(path, status);
  size_ = static_cast<std::size_t>(status.st_size);
  modified_ns_ = modification_ns(status);
  if (size_ == 0) return;
  void* const mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (mapped == MAP_FAILED) {
    const std::string reason = system_reason();
    ::close(descriptor_);
    fail(ErrorCode::io, "{}: cannot map: {}", path.string(), reason);
  }
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(modified_ns_, other.modified_ns_);
  return *this;
}

void MappedFile::check_unchanged() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || static_cast<std::size_t>(status.st_size) != size_ ||
      modification_ns(status) != modified_ns_)
    fail(ErrorCode::bad_input, "{}: changed while it was being read; try again", path_.string());
}

std::string read_text_file(const std::filesystem::path& path, std::size_t limit) {
  struct stat status {};
  const int descriptor = open_for_reading(path, status);
  std::string text;
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > limit) {
    ::close(descriptor);
    fail(ErrorCode::bad_input, "{}: {} bytes, more than the {} allowed here", path.string(), size,
         limit);
  }
  text.resize(size);
  std::size_t got = 0;
  while (got < size) {
    const ssize_t n = ::read(descriptor, text.data() + got, size - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += static_cast<std::size_t>(n);
  }
  ::close(descriptor);
  if (got != size) fail(ErrorCode::io, "{}: read {} of {} bytes", path.string(), got, size);
  return text;
}

AtomicFile::AtomicFile(std::filesystem::path path, bool replace, unsigned mode)
    : path_(std::move(path)), temporary_(temporary_name(path_)), replace_(replace) {
  if (!replace_ && std::filesystem::exists(path_))
    fail(ErrorCode::usage, "{}: exists already; use --force to replace it", path_.string());
  descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (descriptor_ < 0)
    fail(ErrorCode::io, "{}: cannot create: {}", path_.string(), system_reason());
  buffer_.reserve(kBufferBytes);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() > kBufferBytes)
    write_all(descriptor_, bytes, path_);
  else
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void AtomicFile::write(std::string_view text) { write(as_bytes(text)); }

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  OUBLI_ASSERT(offset + bytes.size() <= size_);
  flush();
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(ErrorCode::io, "{}: cannot write: {}", path_.string(), system_reason());
    }
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::flush() {
  write_all(descriptor_, buffer_, path_);
  buffer_.clear();
}

const std::filesystem::path& AtomicFile::temporary_path() {
  flush();
  return temporary_;
}

void AtomicFile::commit() {
  flush();
  if (::fsync(descriptor_) != 0)
    fail(ErrorCode::io, "{}: cannot write to disk: {}", path_.string(), system_reason());
  if (replace_) {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0)
      fail(ErrorCode::io, "{}: cannot rename into place: {}", path_.string(), system_reason());
  } else {
    // link() fails if the name exists, which rename() would silently replace.
    if (::link(temporary_.c_str(), path_.c_str()) != 0) {
      if (errno == EEXIST)
        fail(ErrorCode::usage, "{}: exists already; use --force to replace it", path_.string());
      fail(ErrorCode::io, "{}: cannot link into place: {}", path_.string(), system_reason());
    }
    ::unlink(temporary_.c_str());
  }
  ::close(descriptor_);
  descriptor_ = -1;
  // The rename itself is durable once its folder is.
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  const int folder_descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_descriptor >= 0) {
    ::fsync(folder_descriptor);
    ::close(folder_descriptor);
  }
}

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes, bool replace,
                unsigned mode) {
  AtomicFile file(path, replace, mode);
  file.write(bytes);
  file.commit();
}

void write_file(const std::filesystem::path& path, std::string_view text, bool replace,
                unsigned mode) {
  write_file(path, as_bytes(text), replace, mode);
}

std::size_t remove_stale_temporaries(const std::filesystem::path& folder) {
  std::size_t removed = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const std::size_t mark = name.rfind(kTemporaryMark);
    if (mark == std::string::npos || name.front() != '.') continue;
    const char* const begin = name.data() + mark + kTemporaryMark.size();
    pid_t owner = 0;
    const auto [end, error] = std::from_chars(begin, name.data() + name.size(), owner);
    if (error != std::errc() || end == name.data() + name.size() || *end != '-') continue;
    // Signal 0 only asks whether the process exists; EPERM means that it does.
    if (owner == ::getpid() || ::kill(owner, 0) == 0 || errno != ESRCH) continue;
    if (std::filesystem::remove(entry.path(), ignored)) ++removed;
  }
  return removed;
}

}  // namespace oubli
