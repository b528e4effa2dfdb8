#pragma once

#include <string>

namespace oubli::cli {

// For CLI::Option::check: CLI11 itself would turn -1 into the largest number there is.
[[nodiscard]] inline std::string require_whole_number(const std::string& word) {
  const bool whole = !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
  return whole ? "" : "wanted a whole number, 0 or more, not " + word;
}

}  // namespace oubli::cli
