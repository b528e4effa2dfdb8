#include "oubli/base/scratch_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "oubli/base/error.h"

namespace oubli {
namespace {

std::filesystem::path folder_for(const std::string& purpose) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error)
    fail(ErrorCode::io, "{}: no folder for temporary files: {}; TMPDIR names one", purpose,
         error.message());
  return folder;
}

int open_without_name(const std::filesystem::path& folder) {
#ifdef O_TMPFILE
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0) return descriptor;
#endif
  // File systems that cannot (NFS): for a moment it has a name.
  std::string name = folder / "oubli-scratch-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

ScratchFile::ScratchFile(std::string purpose) : purpose_(std::move(purpose)) {
  const std::filesystem::path folder = folder_for(purpose_);
  descriptor_ = open_without_name(folder);
  if (descriptor_ < 0)
    fail(ErrorCode::io, "{}: cannot create a temporary file in {}: {}", purpose_, folder.string(),
         std::strerror(errno));
}

ScratchFile::~ScratchFile() {
  if (!mapped_.empty()) ::munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
  ::close(descriptor_);
}

void ScratchFile::write(std::span<const std::byte> bytes) {
  OUBLI_ASSERT(mapped_.empty());
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(ErrorCode::io, "{}: cannot write to a temporary file: {}; TMPDIR names its folder",
           purpose_, std::strerror(errno));
    }
    size_ += static_cast<std::size_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

std::span<const std::byte> ScratchFile::map() {
  OUBLI_ASSERT(mapped_.empty());
  if (size_ == 0) return {};
  void* const data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (data == MAP_FAILED)
    fail(ErrorCode::io, "{}: cannot map a temporary file: {}", purpose_, std::strerror(errno));
  mapped_ = {static_cast<const std::byte*>(data), size_};
  return mapped_;
}

}  // namespace oubli
