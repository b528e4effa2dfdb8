#include "oubli/base/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <utility>

#include "oubli/base/printable.h"

namespace oubli {
namespace {

std::atomic<Verbosity> current_verbosity{Verbosity::normal};
thread_local Listener* current_listener = nullptr;

}  // namespace

void set_verbosity(Verbosity verbosity) { current_verbosity = verbosity; }
Verbosity verbosity() { return current_verbosity; }

ListenerScope::ListenerScope(Listener& listener)
    : outer_(std::exchange(current_listener, &listener)) {}
ListenerScope::~ListenerScope() { current_listener = outer_; }

void write_to_stderr(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

void say(const std::string& line) {
  if (current_listener != nullptr) return current_listener->said(line);
  if (verbosity() != Verbosity::quiet) write_to_stderr(printable(line) + "\n");
}

void say_detail(const std::string& line) {
  if (verbosity() == Verbosity::verbose) write_to_stderr(printable(line) + "\n");
}

Progress::Progress(std::string label, std::size_t total)
    : label_(printable(label)),
      total_(total),
      begin_(std::chrono::steady_clock::now()),
      shown_(begin_),
      terminal_(::isatty(STDERR_FILENO) == 1),
      listener_(current_listener) {
  if (listener_ != nullptr) listener_->progressed(label_, 0, total_);
}

Progress::~Progress() {
  if (shown_once_) show(true);
}

void Progress::step(std::size_t count) {
  const std::scoped_lock lock(mutex_);
  done_ += count;
  if (listener_ != nullptr) return listener_->progressed(label_, done_, total_);
  const auto now = std::chrono::steady_clock::now();
  const auto interval =
      terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(10'000);
  if (now - shown_ < interval) return;
  shown_ = now;
  show(false);
}

void Progress::show(bool last) {
  if (verbosity() == Verbosity::quiet) return;
  shown_once_ = true;
  const double elapsed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  std::string line = fmt::format("{}: {} of {}", label_, done_, total_);
  if (last)
    line += ", " + format_duration(elapsed);
  else if (done_ > 0 && done_ < total_)
    line += fmt::format(", about {} left", format_duration(elapsed / static_cast<double>(done_) *
                                                           static_cast<double>(total_ - done_)));
  if (terminal_)
    write_to_stderr(fmt::format("\r\x1b[K{}{}", line, last ? "\n" : ""));
  else
    write_to_stderr(line + "\n");
}

std::string format_duration(double seconds) {
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace oubli
