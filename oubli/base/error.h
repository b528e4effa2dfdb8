#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace oubli {

// What went wrong, as the exit code of the program. The codes are part of the interface.
enum class ErrorCode : int {
  bug = 1,            // ours: please report it
  usage = 2,          // the command line does not make sense
  bad_input = 3,      // a file is damaged, inconsistent or of the wrong kind
  unfilterable = 4,   // the model cannot be filtered, and why
  self_check = 5,     // the result did not pass its own test; nothing was written
  io = 6,             // the operating system refused: disk full, permission, ...
  missing = 7,        // a component or data set is not there, and how to get it
  some_failed = 8,    // finished, but some trials failed
  interrupted = 130,  // Ctrl-C
};

// The one exception type for everything that comes from outside: files, models, flags, singular
// matrices. The message names the file, tensor or option, what was found, what was wanted.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ErrorCode code() const { return code_; }
  [[nodiscard]] int exit_code() const { return static_cast<int>(code_); }

 private:
  ErrorCode code_;
};

// fail(ErrorCode::bad_input, "{}: {} bytes, wanted {}", path, found, wanted);
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace oubli

// For our own bugs only, never reachable from user input: throws in the dev and sanitizer builds,
// is nothing in release.
#ifdef OUBLI_ASSERTIONS
#define OUBLI_ASSERT(condition)                                                                  \
  ((condition) ? void(0)                                                                         \
               : throw std::logic_error(std::string(__FILE__) + ":" + std::to_string(__LINE__) + \
                                        ": " #condition))
#else
#define OUBLI_ASSERT(condition) void(0)
#endif
