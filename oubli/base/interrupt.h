#pragma once

#include <stop_token>

namespace oubli {

// The program's stop token: a first SIGINT or SIGTERM requests a stop, so that work under way can
// end cleanly; a second one ends the process at once. Calls after the first return the same token.
// Within a StopScope of the calling thread: its token, and signals are left alone.
[[nodiscard]] std::stop_token stop_on_interrupt();

// For programs that have signals of their own: work that this thread starts while the scope lives
// ends when `stop` is requested.
class StopScope {
 public:
  explicit StopScope(std::stop_token stop);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  // The innermost scope's token on this thread; one that never stops if there is none.
  [[nodiscard]] static std::stop_token current();

 private:
  std::stop_token stop_;
  const StopScope* outer_;
};

// Throws Error{interrupted} if a stop was requested.
void throw_if_stopped(const std::stop_token& stop);

}  // namespace oubli
