#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace oubli {

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  // that it takes; 0: there is none
};

// The one that the text begins with, if it is well-formed UTF-8: no overlong form, no surrogate.
[[nodiscard]] CodePoint first_code_point(std::string_view text);

void append_utf8(std::string& out, char32_t code);

}  // namespace oubli
