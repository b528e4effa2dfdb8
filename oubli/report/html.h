#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace oubli::report {

// Text for HTML and SVG, in element content and in double-quoted attributes alike. Whatever comes
// from a file (class names, paths) passes through here: "<script>" is shown, never run. Control
// characters and bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string escape(std::string_view text);

[[nodiscard]] std::string base64(std::string_view bytes);

// A table of text for a page; cells are escaped when it is drawn.
struct Table {
  struct Column {
    std::string title;
    bool number = false;  // right-aligned, digits of equal width
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
};

// Without the columns that have no cell with text.
[[nodiscard]] Table without_empty_columns(const Table& table);

[[nodiscard]] std::string html(const Table& table);
// The same, closed behind a line that opens it: "Numbers behind this picture".
[[nodiscard]] std::string html_details(std::string_view summary, const Table& table);

}  // namespace oubli::report
