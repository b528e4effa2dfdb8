#include "oubli/base/text_table.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "oubli/base/error.h"
#include "oubli/base/printable.h"

namespace oubli {
namespace {

// "a" in three columns: "a  " or "  a".
std::string pad(const std::string& text, std::size_t width, TextTable::Align align) {
  const std::size_t have = display_width(text);
  const std::string space(width > have ? width - have : 0, ' ');
  return align == TextTable::Align::left ? text + space : space + text;
}

// Continuation bytes of UTF-8 are 10xxxxxx.
bool begins_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

}  // namespace

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_code_point));
}

std::string elided(std::string_view text, std::size_t most) {
  if (display_width(text) <= most) return std::string(text);
  std::size_t columns = 0;
  const auto* const end =
      std::ranges::find_if(text, [&](char c) { return begins_code_point(c) && columns++ == most; });
  return std::string(text.begin(), end) + "…";
}

void TextTable::add_row(std::vector<std::string> cells) {
  OUBLI_ASSERT(cells.size() <= columns.size());
  cells.resize(columns.size());
  for (std::string& cell : cells) cell = printable(cell);
  rows.push_back(std::move(cells));
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths(columns.size());
  for (std::size_t j = 0; j < columns.size(); ++j) {
    widths[j] = display_width(columns[j].title);
    for (const auto& row : rows)
      if (!row.empty()) widths[j] = std::max(widths[j], display_width(row[j]));
  }
  std::string rule;
  for (std::size_t j = 0; j < widths.size(); ++j)
    rule += (j == 0 ? "" : "  ") + std::string(widths[j], '-');

  std::string out;
  const auto add_line = [&out](std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  };
  const auto add_cells = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t j = 0; j < columns.size(); ++j)
      line += (j == 0 ? "" : "  ") + pad(cell_of(j), widths[j], columns[j].align);
    add_line(std::move(line));
  };
  add_cells([this](std::size_t j) { return printable(columns[j].title); });
  add_line(rule);
  for (const auto& row : rows) {
    if (row.empty())
      add_line(rule);
    else
      add_cells([&row](std::size_t j) { return printable(row[j]); });
  }
  return out;
}

std::string TextTable::markdown() const {
  const auto escaped = [](const std::string& cell) {
    std::string out;
    for (const char c : printable(cell)) out += c == '|' ? "\\|" : std::string(1, c);
    return out;
  };
  std::string out = "|";
  for (const Column& column : columns) out += ' ' + escaped(column.title) + " |";
  out += "\n|";
  for (const Column& column : columns) out += column.align == Align::left ? "---|" : "---:|";
  out += '\n';
  for (const auto& row : rows) {
    if (row.empty()) continue;
    out += '|';
    for (const std::string& cell : row) out += ' ' + escaped(cell) + " |";
    out += '\n';
  }
  return out;
}

}  // namespace oubli
