#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace oubli {

// A table of text: for terminals, for Markdown documents and, by oubli/report, for pages. Cells are
// UTF-8; each code point counts as one column. Control characters (a class name may hold an escape
// sequence) are shown as '?', so that a cell can neither break the table nor command the terminal.
struct TextTable {
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;  // numbers to the right
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // a row without cells is a rule

  TextTable() = default;
  explicit TextTable(std::vector<Column> titles,
                     std::vector<std::vector<std::string>> first_rows = {})
      : columns(std::move(titles)), rows(std::move(first_rows)) {}

  // One cell per column; missing ones at the end are empty.
  void add_row(std::vector<std::string> cells);
  // A horizontal line between the rows before and the rows to come (text() only).
  void add_rule() { rows.emplace_back(); }

  // Title, rule, rows; two spaces between columns, no space at the end of a line.
  [[nodiscard]] std::string text() const;
  // A GitHub table; '|' in cells is escaped.
  [[nodiscard]] std::string markdown() const;
};

// Columns that `text` takes on a terminal: its code points.
[[nodiscard]] std::size_t display_width(std::string_view text);

// `text`, or its first `most` columns and an ellipsis.
[[nodiscard]] std::string elided(std::string_view text, std::size_t most);

}  // namespace oubli
