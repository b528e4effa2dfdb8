#pragma once

#include <string>
#include <string_view>

namespace oubli {

// Whether `text` mentions `name` as a word of its own: in small letters or capitals, with or
// without accents and in any normal form of Unicode, as it stands, percent-encoded, or escaped as
// JSON and Python do, once or twice. Numbers are not looked for, and names of one or two letters
// only as the whole text: both occur everywhere. Takes time in proportion to both.
[[nodiscard]] bool mentions_name(std::string_view text, std::string_view name);

// The text with "..." wherever it says the name.
[[nodiscard]] std::string without_name(std::string_view text, std::string_view name);

// Text (UTF-8) as it is compared: in small letters, without marks, wide letters as plain ones. What
// is no UTF-8 stays.
[[nodiscard]] std::string folded(std::string_view text);

}  // namespace oubli
