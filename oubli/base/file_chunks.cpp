#include "oubli/base/file_chunks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "oubli/base/error.h"

namespace oubli {
namespace {

// An open descriptor, and one chunk mapped from it.
struct Descriptor {
  int number;
  ~Descriptor() { ::close(number); }
};
struct Chunk {
  void* data;
  std::size_t size;
  ~Chunk() { ::munmap(data, size); }
};

}  // namespace

void for_each_chunk(
    const std::filesystem::path& path, std::size_t overlap,
    const std::function<bool(std::uint64_t offset, std::span<const std::byte>)>& visit) {
  const auto refuse = [&](const char* what) {
    fail(ErrorCode::io, "{}: {}: {}", path.string(), what, std::strerror(errno));
  };
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) refuse("cannot be opened");
  struct stat status {};
  if (::fstat(file.number, &status) != 0) refuse("cannot be read");
  if (!S_ISREG(status.st_mode)) fail(ErrorCode::io, "{}: not a regular file", path.string());
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
#ifdef MAP_POPULATE
  constexpr int kFlags = MAP_PRIVATE | MAP_POPULATE;
#else
  constexpr int kFlags = MAP_PRIVATE;
#endif
  for (std::uint64_t done = 0; done < size;) {
    const std::uint64_t first = done - std::min<std::uint64_t>(done, overlap);
    const std::uint64_t begin = first / page * page;
    const std::uint64_t end = std::min(size, done + std::max<std::uint64_t>(kChunkBytes, overlap));
    const auto length = static_cast<std::size_t>(end - begin);
    void* const data =
        ::mmap(nullptr, length, PROT_READ, kFlags, file.number, static_cast<off_t>(begin));
    if (data == MAP_FAILED) refuse("cannot be mapped");
    const Chunk chunk{data, length};
    const std::span all(static_cast<const std::byte*>(data), length);
    if (!visit(first, all.subspan(static_cast<std::size_t>(first - begin)))) return;
    done = end;
  }
}

void wait_for_disk(const std::filesystem::path& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0 || ::fsync(file.number) != 0)
    fail(ErrorCode::io, "{}: cannot write to disk: {}", path.string(), std::strerror(errno));
}

void release_pages(std::span<const std::byte> mapped) {
  if (mapped.empty()) return;
  // Of a mapping that is only read, this drops nothing but page tables.
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t before = reinterpret_cast<std::uintptr_t>(mapped.data()) % page;
  (void)::madvise(const_cast<std::byte*>(mapped.data()) - before, before + mapped.size(),
                  MADV_DONTNEED);
}

}  // namespace oubli
