#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace oubli {

// Base64 (RFC 4648), standard alphabet, padded.
[[nodiscard]] std::string to_base64(std::string_view bytes);

// Either alphabet, standard or URL-safe, but not both in one text; padded. None for anything else,
// also for white space and for bits behind the last byte, so that bytes have one text per alphabet.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

}  // namespace oubli
