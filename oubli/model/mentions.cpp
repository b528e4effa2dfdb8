#include "oubli/model/mentions.h"

#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "oubli/model/base_letters.h"
#include "oubli/model/name_text.h"

namespace oubli {

namespace {

// One character of UTF-8 at the front of `text` and how many bytes it takes; nothing if it is none.
std::optional<std::pair<char32_t, std::size_t>> first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return std::pair(char32_t{first}, std::size_t{1});
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return std::nullopt;
  char32_t code = first & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return std::nullopt;
    code = code << 6 | (byte(i) & 0x3fU);
  }
  return std::pair(code, size);
}

void append(std::string& out, char32_t code) {
  const auto add = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return add(code);
  const unsigned more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  add((0xff00U >> (more + 1) & 0xffU) | code >> 6 * more);
  for (unsigned i = more; i-- > 0;) add(0x80U | (code >> 6 * i & 0x3fU));
}

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
    append(out, 0x1100 + index / 588);
    append(out, 0x1161 + index % 588 / 28);
    if (index % 28 != 0) append(out, 0x11a7 + index % 28);
    return;
  }
  const auto letter = std::ranges::lower_bound(
      kBaseLetters, code, {}, [](const auto& pair) { return char32_t{pair.first}; });
  if (letter != kBaseLetters.end() && letter->first == code) return append(out, letter->second);
  append(out, small_letter(code));
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
    const auto character = first_character(text);
    if (character)
      append_folded(out, character->first);
    else
      out.push_back(text.front());
    text.remove_prefix(character ? character->second : 1);
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
