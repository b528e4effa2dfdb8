#include "oubli/report/html.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "oubli/base/error.h"
#include "oubli/base/utf8.h"

namespace oubli::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = first_code_point(text.substr(i)).bytes;
    if (length != 1) {
      out += length == 0 ? kReplacement : text.substr(i, length);
      i += length == 0 ? 1 : length;
      continue;
    }
    switch (const char c = text[i++]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '\n':
      case '\t':
        out += ' ';
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
          out += kReplacement;
        else
          out += c;
    }
  }
  return out;
}

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8U | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      out += i + j <= bytes.size() ? kDigits[group >> (18U - 6U * j) & 63U] : '=';
  }
  return out;
}

TextTable without_empty_columns(const TextTable& table) {
  TextTable out;
  out.rows.resize(table.rows.size());
  for (std::size_t j = 0; j < table.columns.size(); ++j) {
    if (std::ranges::all_of(table.rows,
                            [j](const auto& row) { return row.empty() || row[j].empty(); }))
      continue;
    out.columns.push_back(table.columns[j]);
    for (std::size_t i = 0; i < table.rows.size(); ++i)
      if (!table.rows[i].empty()) out.rows[i].push_back(table.rows[i][j]);
  }
  return out;
}

std::string html(const TextTable& table) {
  std::string out = "<div class=\"scroll\"><table><thead><tr>";
  // Numbers are never broken, but a reason in the place of one is.
  constexpr std::size_t kLongNumber = 32;
  const auto open = [&](const char* tag, std::size_t j, const std::string& cell) {
    if (table.columns[j].align == TextTable::Align::left) return fmt::format("<{}>", tag);
    return fmt::format("<{} class=\"n{}\">", tag, cell.size() > kLongNumber ? " long" : "");
  };
  for (std::size_t j = 0; j < table.columns.size(); ++j)
    out += open("th", j, "") + escape(table.columns[j].title) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    if (row.empty()) continue;
    OUBLI_ASSERT(row.size() == table.columns.size());
    out += "<tr>";
    for (std::size_t j = 0; j < row.size(); ++j)
      out += open("td", j, row[j]) + escape(row[j]) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string html_details(std::string_view summary, const TextTable& table) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", escape(summary),
                     html(table));
}

}  // namespace oubli::report
