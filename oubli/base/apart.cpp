#include "oubli/base/apart.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <new>

#include "oubli/base/error.h"
#include "oubli/base/interrupt.h"

namespace oubli {

namespace {

#if defined(__has_feature)
#define OUBLI_HAS_FEATURE(x) __has_feature(x)
#else
#define OUBLI_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    OUBLI_HAS_FEATURE(address_sanitizer) || OUBLI_HAS_FEATURE(thread_sanitizer)
constexpr bool kSanitized = true;  // these take terabytes of addresses
#else
constexpr bool kSanitized = false;
#endif

// What comes first in the pipe.
constexpr char kResult = 'r', kError = 'e', kMemory = 'm';

void set_limit(int which, std::uint64_t most) {
  const struct rlimit limit { most, most };
  (void)::setrlimit(static_cast<__rlimit_resource_t>(which), &limit);
}

// Bytes of data that this process has, as RLIMIT_DATA counts them.
std::uint64_t data_size() {
  std::uint64_t pages = 0;
  std::ifstream statm("/proc/self/statm");
  for (int i = 0; i < 6 && statm; ++i) statm >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void write_all(int pipe, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(pipe, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// The copy's part. Nothing of this process may be tidied up in it: its temporary files are ours.
[[noreturn]] void work_in_copy(const std::function<std::string()>& work, ApartLimits limits,
                               int pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_UNBLOCK, &all, nullptr);
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) {
    (void)::dup2(nowhere, STDOUT_FILENO);
    (void)::dup2(nowhere, STDERR_FILENO);
  }
  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_CPU, limits.seconds);
  if (!kSanitized) set_limit(RLIMIT_DATA, data_size() + limits.memory);
  try {
    write_all(pipe, kResult + work());
  } catch (const Error& error) {
    write_all(pipe, fmt::format("{}{}\n{}", kError, static_cast<int>(error.code()), error.what()));
  } catch (const std::bad_alloc&) {
    write_all(pipe, std::string_view(&kMemory, 1));
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

// All that comes out of the pipe; nothing if that takes too long.
std::optional<std::string> read_all(int pipe, unsigned seconds, const std::stop_token& stop) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  std::string text;
  std::array<char, 65536> piece{};
  while (Clock::now() < end && !stop.stop_requested()) {
    struct pollfd wait {
      pipe, POLLIN, 0
    };
    if (::poll(&wait, 1, 100) <= 0) continue;
    const ssize_t count = ::read(pipe, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
  return std::nullopt;
}

}  // namespace

ApartOutcome run_apart(const std::function<std::string()>& work, ApartLimits limits,
                       const std::stop_token& stop) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return {std::nullopt, fmt::format("there is no pipe to it: {}", std::strerror(errno))};
  const pid_t copy = ::fork();
  if (copy == 0) {
    ::close(ends[0]);
    work_in_copy(work, limits, ends[1]);
  }
  ::close(ends[1]);
  if (copy < 0) {
    ::close(ends[0]);
    return {std::nullopt, fmt::format("no process can be made: {}", std::strerror(errno))};
  }
  const std::optional<std::string> text = read_all(ends[0], 4 * limits.seconds, stop);
  ::close(ends[0]);
  if (!text) ::kill(copy, SIGKILL);
  int status = 0;
  while (::waitpid(copy, &status, 0) < 0 && errno == EINTR) continue;
  throw_if_stopped(stop);
  const std::string too_long = fmt::format("it took more than {} s", limits.seconds);
  if (!text) return {std::nullopt, too_long};
  if (WIFSIGNALED(status))
    return {std::nullopt, WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL
                              ? too_long
                              : fmt::format("it ended by signal {}", WTERMSIG(status))};
  if (text->starts_with(kMemory))
    return {std::nullopt, fmt::format("it took more than {} MiB", limits.memory >> 20)};
  if (text->starts_with(kError)) {
    const std::size_t line = text->find('\n');
    throw Error(static_cast<ErrorCode>(std::stoi(text->substr(1, line - 1))),
                text->substr(line + 1));
  }
  if (!text->starts_with(kResult)) return {std::nullopt, "it ended without a result"};
  return {text->substr(1), ""};
}

}  // namespace oubli
