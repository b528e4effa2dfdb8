#include "oubli/base/utf8.h"

namespace oubli {

CodePoint first_code_point(std::string_view text) {
  if (text.empty()) return {};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  char32_t value = lead & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    value = value << 6 | (byte(i) & 0x3FU);
  }
  const bool overlong = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
  if (overlong || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return {};
  return {value, bytes};
}

void append_utf8(std::string& out, char32_t code) {
  const auto add = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return add(code);
  const unsigned more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;  // bytes after the first
  add((0xFF00U >> (more + 1) & 0xFFU) | (code >> (6 * more) & (0x3FU >> more)));
  for (unsigned i = more; i-- > 0;) add(0x80U | (code >> (6 * i) & 0x3FU));
}

}  // namespace oubli
