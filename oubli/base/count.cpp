#include "oubli/base/count.h"

#include <charconv>
#include <system_error>

namespace oubli {

std::optional<std::uint64_t> parse_count(std::string_view word, std::uint64_t least,
                                         std::uint64_t most) {
  if (word.size() > 1 && word.front() == '0') return std::nullopt;
  const auto count = parse_digits(word);
  return count && *count >= least && *count <= most ? count : std::nullopt;
}

std::optional<std::uint64_t> parse_digits(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace oubli
