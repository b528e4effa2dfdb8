#include "oubli/model/literal_reader.h"

#include <charconv>

#include "oubli/base/utf8.h"

namespace oubli {
char LiteralReader::peek() {
  while (at < text_.size() && kBlanks.find(text_[at]) != std::string_view::npos) {
    ++at;
  }
  return at < text_.size() ? text_[at] : '\0';
}

std::optional<LiteralToken> LiteralReader::token() {
  const char first = peek();
  if (first == '"' || first == '\'') return quoted(first);
  LiteralToken token{"", at, at, at, at, false};
  while (at < text_.size() &&
         std::string_view(",:[]{}()\"' \t\r\n").find(text_[at]) == std::string_view::npos) {
    token.value.push_back(text_[at++]);
  }
  token.end = token.inner_end = at;
  if (token.value.empty()) return std::nullopt;
  return token;
}

std::optional<LiteralToken> LiteralReader::string(std::vector<std::size_t>& offsets) {
  offsets.clear();
  return quoted(peek(), &offsets);
}

bool LiteralReader::escape(std::string& out) {
  if (text_.size() - at < 2) return false;
  const std::size_t begin = at;
  const char kind = text_[at + 1];
  at += 2;
  switch (kind) {
    case 'n':
      out.push_back('\n');
      return true;
    case 't':
      out.push_back('\t');
      return true;
    case 'r':
      out.push_back('\r');
      return true;
    case 'x':
    case 'u':
    case 'U': {
      constexpr std::uint32_t kNone = 0xffffffff;
      std::uint32_t point = hex(kind == 'x' ? 2 : kind == 'u' ? 4 : 8).value_or(kNone);
      if (point >= 0xd800 && point < 0xdc00 && text_.substr(at, 2) == "\\u") {  // a pair
        at += 2;
        const std::optional<std::uint32_t> low = hex(4);
        point = low ? 0x10000 + ((point - 0xd800) << 10) + (*low & 0x3ff) : kNone;
      }
      if (point > 0x10ffff) {
        at = begin;
        return false;
      }
      append_utf8(out, point);
      return true;
    }
    default:
      out.push_back(kind);
      return true;
  }
}

std::optional<LiteralToken> LiteralReader::quoted(char quote, std::vector<std::size_t>* offsets) {
  LiteralToken token{"", at, at, at + 1, at, true};
  ++at;
  while (at < text_.size() && text_[at] != quote) {
    const std::size_t from = at;
    if (text_[at] != '\\') {
      token.value.push_back(text_[at++]);
    } else if (!escape(token.value)) {
      return std::nullopt;
    }
    if (offsets != nullptr) offsets->resize(token.value.size(), from);
  }
  if (at >= text_.size()) return std::nullopt;
  if (offsets != nullptr) offsets->push_back(at);
  token.inner_end = at++;
  token.end = at;
  return token;
}

std::optional<std::uint32_t> LiteralReader::hex(std::size_t digits) {
  if (text_.size() - at < digits) return std::nullopt;
  std::uint32_t value = 0;
  const char* const begin = text_.data() + at;
  const auto [end, error] = std::from_chars(begin, begin + digits, value, 16);
  if (error != std::errc() || end != begin + digits) return std::nullopt;
  at += digits;
  return value;
}

}  // namespace oubli
