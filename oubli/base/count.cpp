#include "oubli/base/count.h"

#include <charconv>
#include <system_error>

namespace oubli {

std::optional<std::uint64_t> parse_count(std::string_view word, std::uint64_t least,
                                         std::uint64_t most) {
  if (word.size() > 1 && word.front() == '0') return std::nullopt;
  std::uint64_t count = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, count);
  if (error != std::errc() || stop != end || count < least || count > most) return std::nullopt;
  return count;
}

}  // namespace oubli
