#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace oubli {

// What people read on a terminal may quote names that come from files, receipts and archives. Each
// control character in it (escape sequences, new lines, those of Unicode that turn text around) and
// each byte that is no UTF-8 becomes '?', so that a name can neither command the terminal nor pass
// for a line of ours.
[[nodiscard]] std::string printable(std::string_view text);

// One line of it: printable, then a new line.
template <typename... Args>
[[nodiscard]] std::string line(fmt::format_string<Args...> format, Args&&... args) {
  return printable(fmt::format(format, std::forward<Args>(args)...)) + '\n';
}

}  // namespace oubli
