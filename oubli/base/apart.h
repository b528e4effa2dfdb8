#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

namespace oubli {

// What a process of its own may take.
struct ApartLimits {
  unsigned seconds = 10;  // of processor time; four times as many of the clock
  std::uint64_t memory = std::uint64_t{1} << 30;  // bytes beyond what this process has
};

// What came of it: a result, or what ended the process before there was one.
struct ApartOutcome {
  std::optional<std::string> result;
  std::string ended;  // "it took more than 10 s", "it ended by signal 11"
};

// Runs `work`, which runs code of others on files of others, in a copy of this process: if that
// crashes, hangs or takes too much, this one goes on. What `work` returns comes back; an Error that
// it throws is thrown here. What it prints is lost, and what it changes stays in the copy. No other
// thread may be at work meanwhile.
[[nodiscard]] ApartOutcome run_apart(const std::function<std::string()>& work, ApartLimits limits,
                                     const std::stop_token& stop = {});

}  // namespace oubli
