#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

namespace oubli {

// How much the program says on stderr. Set once in main; stdout is for results alone.
enum class Verbosity { quiet, normal, verbose };
void set_verbosity(Verbosity verbosity);
[[nodiscard]] Verbosity verbosity();

// Whoever runs the library inside a program with a face of its own hears what stderr would show.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void said(const std::string& line) = 0;
  // From any thread that works for the one that listens, one at a time for each Progress.
  virtual void progressed(const std::string& label, std::size_t done, std::size_t total) = 0;
};

// What this thread says, and what begins on it, goes to `listener` while the scope lives.
class ListenerScope {
 public:
  explicit ListenerScope(Listener& listener);
  ~ListenerScope();
  ListenerScope(const ListenerScope&) = delete;
  ListenerScope& operator=(const ListenerScope&) = delete;

 private:
  Listener* outer_;
};

// Where stderr is closed or full nobody hears it, and the work goes on: never an error.
void write_to_stderr(std::string_view text);
// One line to stderr unless quiet: a remark, a warning, where a file was written.
void say(const std::string& line);
// One line to stderr if verbose.
void say_detail(const std::string& line);

// Progress of `total` steps with an estimate of the time left: a bar on a terminal, otherwise a
// line at most every ten seconds; nothing if quiet. Safe to call from several threads.
class Progress {
 public:
  Progress(std::string label, std::size_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void step(std::size_t count = 1);

 private:
  void show(bool last);

  std::mutex mutex_;
  std::string label_;
  std::size_t total_;
  std::size_t done_ = 0;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point shown_;
  bool terminal_;
  Listener* listener_;  // instead of stderr
  bool shown_once_ = false;
};

// "45 s", "3 min 20 s", "2 h 05 min".
[[nodiscard]] std::string format_duration(double seconds);

}  // namespace oubli
