#include "oubli/model/mentions.h"

#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "oubli/base/utf8.h"
#include "oubli/model/base_letters.h"
#include "oubli/model/name_text.h"

namespace oubli {

namespace {

bool is_mark(char32_t code) {
  return (code >= 0x300 && code < 0x370) || (code >= 0x1ab0 && code < 0x1b00) ||
         (code >= 0x1dc0 && code < 0x1e00) || (code >= 0x20d0 && code < 0x2100) ||
         (code >= 0xfe20 && code < 0xfe30) || code == 0x3099 || code == 0x309a;
}

char32_t small_letter(char32_t code) {
  static const locale_t kUnicode = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (kUnicode == nullptr) return code;
  return static_cast<char32_t>(::towlower_l(static_cast<wint_t>(code), kUnicode));
}

void append_folded(std::string& out, char32_t code) {
  if (code < 0x80) return out.push_back(static_cast<char>(std::tolower(static_cast<int>(code))));
  if (is_mark(code)) return;
  if (code >= 0xff01 && code <= 0xff5e) return append_folded(out, code - 0xff01 + 0x21);
  if (code >= 0xac00 && code < 0xac00 + 11172) {  // a Hangul syllable as its two or three letters
    const char32_t index = code - 0xac00;
    append_utf8(out, 0x1100 + index / 588);
    append_utf8(out, 0x1161 + index % 588 / 28);
    if (index % 28 != 0) append_utf8(out, 0x11a7 + index % 28);
    return;
  }
  const auto letter = std::ranges::lower_bound(
      kBaseLetters, code, {}, [](const auto& pair) { return char32_t{pair.first}; });
  if (letter != kBaseLetters.end() && letter->first == code)
    return append_utf8(out, letter->second);
  append_utf8(out, small_letter(code));
}

// With %41 as A; nothing if there is none of these.
std::optional<std::string> percent_decoded(std::string_view text) {
  const auto digit = [&](std::size_t at) {
    return at < text.size() && std::isxdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  std::string out;
  bool any = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && digit(i + 1) && digit(i + 2)) {
      out.push_back(static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16)));
      i += 2;
      any = true;
    } else {
      out.push_back(text[i]);
    }
  }
  return any ? std::optional(std::move(out)) : std::nullopt;
}

// Calls `found` for each place of `name` in `text`, ascending, overlapping ones too, until it says
// false: by Knuth, Morris and Pratt, so that no text takes long.
void for_each_place(std::string_view text, std::string_view name,
                    const std::function<bool(std::size_t)>& found) {
  std::vector<std::size_t> border(name.size() + 1);  // of each beginning of the name
  for (std::size_t i = 1, matched = 0; i < name.size(); ++i) {
    while (matched > 0 && name[i] != name[matched]) matched = border[matched];
    if (name[i] == name[matched]) ++matched;
    border[i + 1] = matched;
  }
  for (std::size_t i = 0, matched = 0; i < text.size(); ++i) {
    while (matched > 0 && text[i] != name[matched]) matched = border[matched];
    if (text[i] == name[matched]) ++matched;
    if (matched < name.size()) continue;
    if (!found(i + 1 - matched)) return;
    matched = border[matched];
  }
}

// As a word of its own; both are folded.
bool has_word(std::string_view text, std::string_view name) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  bool there = false;
  for_each_place(text, name, [&](std::size_t at) {
    const std::size_t end = at + name.size();
    there = (at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]));
    return !there;
  });
  return there;
}

bool is_searchable(std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && !std::ranges::all_of(name, is_digit);
}

}  // namespace

std::string folded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint character = first_code_point(text);
    if (character.bytes != 0)
      append_folded(out, character.value);
    else
      out.push_back(text.front());
    text.remove_prefix(std::max<std::size_t>(1, character.bytes));
  }
  return out;
}

bool mentions_name(std::string_view text, std::string_view name) {
  if (!is_searchable(name)) return false;
  if (name.size() < 3) return text == name;
  const std::string word = folded(name);
  if (word.empty()) return text.find(name) != std::string_view::npos;  // nothing but marks
  std::string there(text);
  // As it stands, then as text inside of a literal, and inside of a literal inside of another.
  for (int depth = 0; depth <= 2; ++depth) {
    if (has_word(folded(there), word)) return true;
    const std::optional<std::string> decoded = percent_decoded(there);
    if (decoded && has_word(folded(*decoded), word)) return true;
    if (there.find('\\') == std::string::npos) return false;
    there = unescaped(there);
  }
  return false;
}

std::string without_name(std::string_view text, std::string_view name) {
  if (!is_searchable(name)) return std::string(text);
  const auto lowered = [](std::string_view from) {  // letter by letter, so that places stay
    std::string out(from);
    std::ranges::transform(out, out.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return out;
  };
  std::string out;
  std::size_t done = 0;
  for_each_place(lowered(text), lowered(name), [&](std::size_t at) {
    if (at < done) return true;
    out += text.substr(done, at - done);
    out += "...";
    done = at + name.size();
    return true;
  });
  out += text.substr(done);
  return mentions_name(out, name) ? "..." : out;
}

}  // namespace oubli
