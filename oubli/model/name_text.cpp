#include "oubli/model/name_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>

namespace oubli {

namespace {

constexpr std::array<std::string_view, 6> kKeys{"names",   "class_names", "labels",
                                                "classes", "id2label",    "label2id"};

void append_utf8(std::string& out, std::uint32_t point) {
  const auto push = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    push(point);
  } else if (point < 0x800) {
    push(0xc0 | (point >> 6));
    push(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    push(0xe0 | (point >> 12));
    push(0x80 | ((point >> 6) & 0x3f));
    push(0x80 | (point & 0x3f));
  } else {
    push(0xf0 | (point >> 18));
    push(0x80 | ((point >> 12) & 0x3f));
    push(0x80 | ((point >> 6) & 0x3f));
    push(0x80 | (point & 0x3f));
  }
}

std::optional<std::size_t> to_index(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// One string, number or word of a literal.
struct Token {
  std::string value;
  std::size_t begin, end;              // with quotes
  std::size_t inner_begin, inner_end;  // without
  bool quoted;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::size_t at = 0;

  char peek() {
    while (at < text_.size() &&
           std::string_view(" \t\r\n").find(text_[at]) != std::string_view::npos) {
      ++at;
    }
    return at < text_.size() ? text_[at] : '\0';
  }

  std::optional<Token> token() {
    const char first = peek();
    if (first == '"' || first == '\'') return quoted(first);
    Token token{"", at, at, at, at, false};
    while (at < text_.size() &&
           std::string_view(",:[]{}()\"' \t\r\n").find(text_[at]) == std::string_view::npos) {
      token.value.push_back(text_[at++]);
    }
    token.end = token.inner_end = at;
    if (token.value.empty()) return std::nullopt;
    return token;
  }

  // Reads the escape that begins here; false if it is none.
  bool escape(std::string& out) {
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
        std::optional<std::uint32_t> point = hex(kind == 'x' ? 2 : kind == 'u' ? 4 : 8);
        if (point && *point >= 0xd800 && *point < 0xdc00 &&
            text_.substr(at, 2) == "\\u") {  // a pair
          at += 2;
          const std::optional<std::uint32_t> low = hex(4);
          if (low)
            point = 0x10000 + ((*point - 0xd800) << 10) + (*low & 0x3ff);
          else
            point.reset();
        }
        if (!point || *point > 0x10ffff) {
          at = begin;
          return false;
        }
        append_utf8(out, *point);
        return true;
      }
      default:
        out.push_back(kind);
        return true;
    }
  }

 private:
  std::optional<Token> quoted(char quote) {
    Token token{"", at, at, at + 1, at, true};
    ++at;
    while (at < text_.size() && text_[at] != quote) {
      if (text_[at] != '\\') {
        token.value.push_back(text_[at++]);
        continue;
      }
      if (!escape(token.value)) return std::nullopt;
    }
    if (at >= text_.size()) return std::nullopt;
    token.inner_end = at++;
    token.end = at;
    return token;
  }

  std::optional<std::uint32_t> hex(std::size_t digits) {
    if (text_.size() - at < digits) return std::nullopt;
    std::uint32_t value = 0;
    const char* const begin = text_.data() + at;
    const auto [end, error] = std::from_chars(begin, begin + digits, value, 16);
    if (error != std::errc() || end != begin + digits) return std::nullopt;
    at += digits;
    return value;
  }

  std::string_view text_;
};

// Whether a dictionary maps indices to names; else names to indices. Nothing if it does neither.
// Quotes say nothing: {"2": "0"} is written for both, and a wrong guess deletes another class.
std::optional<bool> index_comes_first(const std::vector<std::pair<Token, Token>>& pairs,
                                      std::string_view key) {
  const bool first_fits = std::ranges::all_of(
      pairs, [](const auto& pair) { return to_index(pair.first.value).has_value(); });
  const bool second_fits = std::ranges::all_of(
      pairs, [](const auto& pair) { return to_index(pair.second.value).has_value(); });
  if (!first_fits && !second_fits) return std::nullopt;
  if (first_fits && second_fits) return key != "label2id";
  return first_fits;
}

}  // namespace

std::optional<NameText> NameText::parse(std::string_view text, std::string_view key) {
  NameText result;
  Reader reader(text);
  const char open = reader.peek();
  std::vector<std::pair<std::size_t, std::string>> found;
  std::vector<std::pair<Token, Token>> pairs;  // of a dictionary
  if (open == '[' || open == '(' || open == '{') {
    const char close = open == '[' ? ']' : open == '(' ? ')' : '}';
    ++reader.at;
    while (reader.peek() != close) {
      const std::optional<Token> first = reader.token();
      if (!first) return std::nullopt;
      if (open == '{') {
        if (reader.peek() != ':') return std::nullopt;
        ++reader.at;
        const std::optional<Token> second = reader.token();
        if (!second) return std::nullopt;
        pairs.emplace_back(*first, *second);
      } else {
        if (!first->quoted && !to_index(first->value)) return std::nullopt;
        result.entries_.push_back({first->begin, first->end, found.size()});
        found.emplace_back(found.size(), first->value);
      }
      if (reader.peek() == ',') {
        ++reader.at;
      } else if (reader.peek() != close) {
        return std::nullopt;
      }
    }
    result.text_ = text.substr(0, reader.at + 1);
    const std::optional<bool> by_index = index_comes_first(pairs, key);
    if (!by_index) return std::nullopt;
    for (const auto& [first, second] : pairs) {
      const Token& number = *by_index ? first : second;
      const std::size_t index = to_index(number.value).value();
      result.entries_.push_back(
          {first.begin, second.end, index, number.inner_begin, number.inner_end});
      found.emplace_back(index, (*by_index ? second : first).value);
    }
  } else {
    // Plain items. A comma inside a line-separated list belongs to the name.
    const char separator = text.find('\n') != std::string_view::npos ? '\n' : ',';
    if (text.find(separator) == std::string_view::npos) return std::nullopt;
    result.text_ = text;
    for (std::size_t begin = 0; begin < text.size();) {
      std::size_t end = std::min(text.find(separator, begin), text.size());
      const std::size_t next = end + 1;
      std::size_t from = begin;
      while (from < end && (text[from] == ' ' || text[from] == '\t')) ++from;
      while (end > from && (text[end - 1] == ' ' || text[end - 1] == '\r' || text[end - 1] == '\t'))
        --end;
      if (end == from) return std::nullopt;
      result.entries_.push_back({from, end, found.size()});
      found.emplace_back(found.size(), std::string(text.substr(from, end - from)));
      begin = next;
    }
  }
  if (found.empty()) return std::nullopt;
  result.names_.resize(found.size());
  std::vector<bool> seen(found.size());
  for (auto& [index, name] : found) {
    if (index >= found.size() || seen[index]) return std::nullopt;
    seen[index] = true;
    result.names_[index] = std::move(name);
  }
  return result;
}

std::string NameText::without(std::span<const std::size_t> forget) const {
  const std::set<std::size_t> gone(forget.begin(), forget.end());
  std::string out = text_.substr(0, entries_.front().begin);
  bool first = true;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (gone.contains(entry.index)) continue;
    // What separates two entries is what stood between the first two of the text.
    if (!first) out += text_.substr(entries_[0].end, entries_[1].begin - entries_[0].end);
    first = false;
    if (entry.number_end > entry.number_begin) {
      const auto before =
          static_cast<std::size_t>(std::distance(gone.begin(), gone.lower_bound(entry.index)));
      out += text_.substr(entry.begin, entry.number_begin - entry.begin);
      out += std::to_string(entry.index - before);
      out += text_.substr(entry.number_end, entry.end - entry.number_end);
    } else {
      out += text_.substr(entry.begin, entry.end - entry.begin);
    }
  }
  return out + text_.substr(entries_.back().end);
}

std::string unescaped(std::string_view text) {
  std::string out;
  Reader reader(text);
  while (reader.at < text.size())
    if (text[reader.at] != '\\' || !reader.escape(out)) out.push_back(text[reader.at++]);
  return out;
}

bool is_class_name_key(std::string_view key) {
  return std::ranges::find(kKeys, key) != kKeys.end();
}

std::vector<NameEntry> names_in_entry(std::string_view key, std::string_view value) {
  std::vector<NameEntry> found;
  if (is_class_name_key(key)) {
    if (std::optional<NameText> names = NameText::parse(value, key))
      found.push_back({0, std::move(*names)});
    return found;
  }
  // A configuration with the names somewhere inside: "id2label": {...}
  for (const std::string_view name : kKeys) {
    for (const char quote : {'"', '\''}) {
      const std::string wanted = quote + std::string(name) + quote;
      for (std::size_t at = value.find(wanted); at != std::string_view::npos;
           at = value.find(wanted, at + 1)) {
        std::size_t begin = at + wanted.size();
        while (begin < value.size() && value[begin] == ' ') ++begin;
        if (begin >= value.size() || value[begin] != ':') continue;
        ++begin;
        while (begin < value.size() && (value[begin] == ' ' || value[begin] == '\n')) ++begin;
        if (begin >= value.size() || (value[begin] != '[' && value[begin] != '{')) continue;
        if (std::optional<NameText> names = NameText::parse(value.substr(begin), name)) {
          found.push_back({begin, std::move(*names)});
        }
      }
    }
  }
  std::ranges::sort(found, {}, &NameEntry::begin);
  return found;
}

}  // namespace oubli
