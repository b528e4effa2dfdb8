#include "oubli/base/into_place.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "oubli/base/digest.h"
#include "oubli/base/error.h"
#include "oubli/base/file.h"

namespace oubli {
namespace {

constexpr std::string_view kTemporaryMark = ".oubli-tmp-";
constexpr std::chrono::hours kLongUntouched{24 * 7};

// Names the machine, or container, within which a process id means one process: eight digits.
const std::string& process_space() {
  static const std::string space = [] {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    std::error_code none;  // without /proc, the host alone
    const std::string ids = std::filesystem::read_symlink("/proc/self/ns/pid", none).string();
    return sha256_hex(as_bytes(host.data() + (' ' + ids))).substr(0, 8);
  }();
  return space;
}

// Whether it is one of those, without a living owner. Whether a process of another machine or
// container lives cannot be told from here: theirs (the folder may be shared) count as living until
// nobody has written to them for a week.
bool is_stale(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const std::size_t mark = name.rfind(kTemporaryMark);
  if (mark == std::string::npos || name.front() != '.') return false;
  std::string_view rest = std::string_view(name).substr(mark + kTemporaryMark.size());
  const std::string& here = process_space();
  if (rest.size() <= here.size() || rest[here.size()] != '-') return false;
  const bool elsewhere = !rest.starts_with(here);
  rest.remove_prefix(here.size() + 1);
  pid_t owner = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), owner);
  if (error != std::errc() || end == rest.data() + rest.size() || *end != '-') return false;
  if (elsewhere) {
    std::error_code unknown;
    const auto written = std::filesystem::last_write_time(path, unknown);
    return !unknown && std::filesystem::file_time_type::clock::now() - written > kLongUntouched;
  }
  // Signal 0 only asks whether the process exists; EPERM means that it does.
  return owner != ::getpid() && ::kill(owner, 0) != 0 && errno == ESRCH;
}

// False, with errno EEXIST, where rename() would silently replace.
bool rename_to_new_name(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  // File systems that cannot (NFS): for a moment it has both names.
  if (::link(from.c_str(), to.c_str()) != 0) return false;
  ::unlink(from.c_str());
  return true;
}

}  // namespace

void fail_because_it_exists(const std::filesystem::path& path) {
  fail(ErrorCode::usage, "{}: exists already; use --force to replace it", path.string());
}

// "dir/.NAME.oubli-tmp-SPACE-PID-N"
std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter{0};
  return path.parent_path() / fmt::format(".{}{}{}-{}-{}", path.filename().string(), kTemporaryMark,
                                          process_space(), ::getpid(), counter.fetch_add(1));
}

void rename_into_place(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (rename_to_new_name(from, to)) return;
  if (errno == EEXIST) fail_because_it_exists(to);
  fail(ErrorCode::io, "{}: cannot rename into place: {}", to.string(), std::strerror(errno));
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

std::size_t remove_stale_temporaries(const std::filesystem::path& folder) {
  std::size_t removed = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (!is_stale(entry.path())) continue;
    std::error_code failed;
    if (std::filesystem::remove_all(entry.path(), failed) > 0 && !failed) ++removed;
  }
  return removed;
}

}  // namespace oubli
