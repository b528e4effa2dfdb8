#pragma once

#include <string>
#include <string_view>

#include "oubli/base/text_table.h"

namespace oubli::report {

// Text for HTML and SVG, in element content and in double-quoted attributes alike. Whatever comes
// from a file (class names, paths) passes through here: "<script>" is shown, never run. Control
// characters and bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string escape(std::string_view text);

[[nodiscard]] std::string base64(std::string_view bytes);

// Without the columns that have no cell with text.
[[nodiscard]] TextTable without_empty_columns(const TextTable& table);

// Rules are left out; columns to the right have digits of equal width.
[[nodiscard]] std::string html(const TextTable& table);
// The same, closed behind a line that opens it: "Numbers behind this picture".
[[nodiscard]] std::string html_details(std::string_view summary, const TextTable& table);

}  // namespace oubli::report
