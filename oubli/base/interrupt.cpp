#include "oubli/base/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <utility>

#include "oubli/base/error.h"

namespace oubli {
namespace {

thread_local const StopScope* innermost_scope = nullptr;

}  // namespace

StopScope::StopScope(std::stop_token stop)
    : stop_(std::move(stop)), outer_(std::exchange(innermost_scope, this)) {}

StopScope::~StopScope() { innermost_scope = outer_; }

std::stop_token StopScope::current() {
  return innermost_scope != nullptr ? innermost_scope->stop_ : std::stop_token();
}

std::stop_token stop_on_interrupt() {
  if (innermost_scope != nullptr) return StopScope::current();
  // A thread that waits for the signals, because almost nothing may be called from a handler. It
  // lives as long as the process; the source is leaked on purpose, so that it may outlive statics.
  static std::stop_source* const source = [] {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // inherited by the threads started later
    auto* const stop = new std::stop_source;
    std::thread([signals, stop] {
      for (bool first = true;; first = false) {
        int signal = 0;
        sigwait(&signals, &signal);
        if (!first) _exit(static_cast<int>(ErrorCode::interrupted));
        stop->request_stop();
      }
    }).detach();
    return stop;
  }();
  return source->get_token();
}

void throw_if_stopped(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Error(ErrorCode::interrupted, "interrupted");
}

}  // namespace oubli
