#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace oubli {

// Nesting beyond this is refused: what walks a document afterwards may recurse.
inline constexpr int kJsonDepth = 64;

// A JSON document from outside. Error{bad_input} naming `what` and the place if it is damaged,
// nests too deeply, or has a key twice in one object (readers disagree on which one counts).
[[nodiscard]] nlohmann::ordered_json parse_json(std::string_view text, const std::string& what);

}  // namespace oubli
