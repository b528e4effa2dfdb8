#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace oubli {

inline constexpr std::uint64_t kLargestCount = std::numeric_limits<std::uint64_t>::max();

// A count that somebody wrote, from `least` to `most`: decimal digits and nothing else. Signs,
// fractions, exponents, leading zeros (which some programs read as octal) and numbers that do not
// fit are none.
[[nodiscard]] std::optional<std::uint64_t> parse_count(std::string_view word,
                                                       std::uint64_t least = 0,
                                                       std::uint64_t most = kLargestCount);

// The same with leading zeros allowed, for numbers that programs wrote.
[[nodiscard]] std::optional<std::uint64_t> parse_digits(std::string_view text);

}  // namespace oubli
