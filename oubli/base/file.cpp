#include "oubli/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "oubli/base/error.h"
#include "oubli/base/into_place.h"

namespace oubli {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

std::string system_reason() { return std::strerror(errno); }

std::int64_t modification_ns(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

int open_for_reading(const std::filesystem::path& path, struct stat& status) {
  // A pipe that nobody writes to would be waited for; it is refused below.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
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

void require_free(const std::filesystem::path& path) {
  if (std::filesystem::exists(path)) fail_because_it_exists(path);
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
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
  struct stat status {
  }, named{};
  if (::fstat(descriptor_, &status) != 0 || static_cast<std::size_t>(status.st_size) != size_ ||
      modification_ns(status) != modified_ns_ || ::stat(path_.c_str(), &named) != 0 ||
      named.st_dev != status.st_dev || named.st_ino != status.st_ino)
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
    : path_(std::move(path)), temporary_(temporary_beside(path_)), replace_(replace) {
  if (!replace_) require_free(path_);
  descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (descriptor_ < 0)
    fail(ErrorCode::io, "{}: cannot create: {}", path_.string(), system_reason());
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

void AtomicFile::make_ready() {
  flush();
  if (::fsync(descriptor_) != 0)
    fail(ErrorCode::io, "{}: cannot write to disk: {}", path_.string(), system_reason());
  std::error_code unknown;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path_, unknown))) return;
  if (!replace_) fail_because_it_exists(path_);
  if (std::filesystem::is_directory(path_, unknown))
    fail(ErrorCode::usage, "{}: is a folder; remove it, or write elsewhere", path_.string());
  if (!std::filesystem::exists(path_, unknown))
    fail(ErrorCode::usage, "{}: is a link that leads nowhere; remove it, or write elsewhere",
         path_.string());
}

void AtomicFile::take_name(bool revocable) {
  if (revocable && replace_) {
    exchanged_ =
        ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0;
    if (exchanged_) return;
    // ENOENT: nothing to exchange with. The others: a file system that cannot.
    if (errno != ENOENT && errno != EINVAL && errno != ENOSYS)
      fail(ErrorCode::io, "{}: cannot rename into place: {}", path_.string(), system_reason());
  }
  if (!replace_)
    rename_into_place(temporary_, path_);
  else if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail(ErrorCode::io, "{}: cannot rename into place: {}", path_.string(), system_reason());
}

void AtomicFile::give_back() noexcept {
  if (exchanged_)
    ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE);
  else
    ::rename(path_.c_str(), temporary_.c_str());
  exchanged_ = false;
}

void AtomicFile::finish() {
  if (exchanged_) ::unlink(temporary_.c_str());
  ::close(descriptor_);
  descriptor_ = -1;
  // The rename itself is durable once its folder is.
  sync_folder(folder_of(path_));
}

void AtomicFile::commit() {
  AtomicFile* const self = this;
  commit(std::span(&self, 1));
}

void AtomicFile::commit(std::span<AtomicFile* const> files) {
  for (AtomicFile* const file : files) file->make_ready();
  std::size_t named = 0;
  try {
    for (; named < files.size(); ++named) files[named]->take_name(named + 1 < files.size());
  } catch (...) {
    while (named-- > 0) files[named]->give_back();
    throw;
  }
  for (AtomicFile* const file : files) file->finish();
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

}  // namespace oubli
