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

}  // namespace

std::size_t display_width(std::string_view text) {
  // Continuation bytes of UTF-8 are 10xxxxxx.
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (Column& column : columns_) column.title = printable(column.title);
}

void TextTable::add_row(std::vector<std::string> cells) {
  OUBLI_ASSERT(cells.size() <= columns_.size());
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

void TextTable::add_rule() { rows_.emplace_back(); }

std::string TextTable::text() const {
  std::vector<std::size_t> widths(columns_.size());
  for (std::size_t j = 0; j < columns_.size(); ++j) {
    widths[j] = display_width(columns_[j].title);
    for (const auto& row : rows_)
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
    for (std::size_t j = 0; j < columns_.size(); ++j)
      line += (j == 0 ? "" : "  ") + pad(cell_of(j), widths[j], columns_[j].align);
    add_line(std::move(line));
  };
  add_cells([this](std::size_t j) { return columns_[j].title; });
  add_line(rule);
  for (const auto& row : rows_) {
    if (row.empty())
      add_line(rule);
    else
      add_cells([&row](std::size_t j) { return row[j]; });
  }
  return out;
}

std::string TextTable::markdown() const {
  const auto escaped = [](const std::string& cell) {
    std::string out;
    for (const char c : cell) out += c == '|' ? "\\|" : std::string(1, c);
    return out;
  };
  std::string out = "|";
  for (const Column& column : columns_) out += ' ' + escaped(column.title) + " |";
  out += "\n|";
  for (const Column& column : columns_) out += column.align == Align::left ? "---|" : "---:|";
  out += '\n';
  for (const auto& row : rows_) {
    if (row.empty()) continue;
    out += '|';
    for (const std::string& cell : row) out += ' ' + escaped(cell) + " |";
    out += '\n';
  }
  return out;
}

}  // namespace oubli
