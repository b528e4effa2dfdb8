#include "oubli/model/name_text.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "oubli/base/count.h"
#include "oubli/model/literal_reader.h"

namespace oubli {

namespace {

constexpr std::array<std::string_view, 6> kKeys{"names",   "class_names", "labels",
                                                "classes", "id2label",    "label2id"};

constexpr std::string_view kBlanks = LiteralReader::kBlanks;

// Strings inside of strings that are looked into; each level doubles the escapes.
constexpr std::size_t kDeepestString = 4;

// Whether a dictionary maps indices to names; else names to indices. Nothing if it does neither.
// Quotes say nothing: {"2": "0"} is written for both, and a wrong guess deletes another class.
std::optional<bool> index_comes_first(
    const std::vector<std::pair<LiteralToken, LiteralToken>>& pairs, std::string_view key) {
  const bool first_fits = std::ranges::all_of(
      pairs, [](const auto& pair) { return parse_digits(pair.first.value).has_value(); });
  const bool second_fits = std::ranges::all_of(
      pairs, [](const auto& pair) { return parse_digits(pair.second.value).has_value(); });
  if (!first_fits && !second_fits) return std::nullopt;
  if (first_fits && second_fits) return key != "label2id";
  return first_fits;
}

// {"id": 3, "name": "dog"}: one class of a list of such, other strings and numbers beside it.
struct Record {
  std::optional<LiteralToken> id;
  std::string name;
};

std::optional<Record> read_record(LiteralReader& reader) {
  constexpr std::array<std::string_view, 4> kIds{"id", "index", "class_id", "label_id"};
  constexpr std::array<std::string_view, 3> kNames{"name", "label", "class_name"};
  Record record;
  bool named = false;
  ++reader.at;
  while (reader.peek() != '}') {
    const std::optional<LiteralToken> key = reader.token();
    if (!key || reader.peek() != ':') return std::nullopt;
    ++reader.at;
    const std::optional<LiteralToken> value = reader.token();
    if (!value) return std::nullopt;
    if (std::ranges::find(kIds, key->value) != kIds.end()) {
      if (record.id || !parse_digits(value->value)) return std::nullopt;
      record.id = value;
    } else if (std::ranges::find(kNames, key->value) != kNames.end()) {
      if (named) return std::nullopt;  // which of the two?
      named = true;
      record.name = value->value;
    }
    if (reader.peek() == ',')
      ++reader.at;
    else if (reader.peek() != '}')
      return std::nullopt;
  }
  ++reader.at;
  if (!named) return std::nullopt;
  return record;
}

// What may separate plain items. A comma inside a line-separated list belongs to the name; of
// commas and semicolons either may.
std::string plain_separators(std::string_view text) {
  const std::string_view items = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  if (items.find('\n') != std::string_view::npos) return "\n";
  std::string separators;
  for (const char separator : {',', ';'})
    if (items.find(separator) != std::string_view::npos) separators.push_back(separator);
  return separators;
}

// Where the values of `name`: in a configuration begin, with the quotes of JSON or Python, escaped
// in a text inside of a text.
std::vector<std::size_t> values_of(std::string_view text, std::string_view name) {
  std::vector<std::size_t> begins;
  const auto skip = [&](std::size_t& at, std::string_view what) {
    while (at < text.size() && what.find(text[at]) != std::string_view::npos) ++at;
  };
  // Line ends and tabs may be escaped, too.
  const auto skip_blanks = [&](std::size_t& at) {
    for (skip(at, kBlanks); at < text.size() && text[at] == '\\'; skip(at, kBlanks)) {
      const std::size_t kind = text.find_first_not_of('\\', at);
      if (kind == std::string_view::npos || std::string_view("nrt").find(text[kind]) > 2) return;
      at = kind + 1;
    }
  };
  for (std::size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    if (at == 0 || (text[at - 1] != '"' && text[at - 1] != '\'')) continue;
    std::size_t begin = at + name.size();
    skip(begin, "\\");
    if (begin >= text.size() || text[begin] != text[at - 1]) continue;
    skip(++begin, kBlanks);
    if (begin >= text.size() || text[begin] != ':') continue;
    skip_blanks(++begin);
    if (begin < text.size()) begins.push_back(begin);
  }
  return begins;
}

}  // namespace

bool NameText::set_names(std::vector<std::pair<std::size_t, std::string>> found) {
  if (found.empty()) return false;
  base_ = std::ranges::min(found).first;
  if (base_ > 1) return false;
  names_.resize(found.size());
  std::vector<bool> seen(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::size_t index = found[i].first - base_;
    if (index >= found.size() || seen[index]) return false;
    seen[index] = true;
    entries_[i].index = index;
    names_[index] = std::move(found[i].second);
  }
  return true;
}

std::optional<NameText> NameText::parse_plain(std::string_view text, char separator) {
  NameText result;
  result.text_ = text;
  std::vector<std::pair<std::size_t, std::string>> found;
  const std::string_view items = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  for (std::size_t begin = 0; begin < items.size();) {
    const std::size_t next = std::min(items.find(separator, begin), items.size());
    const std::string_view item = items.substr(begin, next - begin);
    const std::size_t skipped = item.find_first_not_of(kBlanks);
    if (skipped == std::string_view::npos) return std::nullopt;
    const std::size_t from = begin + skipped;
    const std::size_t end = begin + item.find_last_not_of(kBlanks) + 1;
    result.entries_.push_back({from, end, found.size()});
    found.emplace_back(found.size(), std::string(text.substr(from, end - from)));
    begin = next + 1;
  }
  if (found.size() < 2 || !result.set_names(std::move(found))) return std::nullopt;
  return result;
}

std::optional<NameText> NameText::parse(std::string_view text, std::string_view key) {
  LiteralReader reader(text);
  const char open = reader.peek();
  if (open != '[' && open != '(' && open != '{') {
    const std::string separators = plain_separators(text);
    return separators.empty() ? std::nullopt : parse_plain(text, separators[0]);
  }
  NameText result;
  std::vector<std::pair<std::size_t, std::string>> found;
  std::vector<std::pair<LiteralToken, LiteralToken>> pairs;  // of a dictionary
  const char close = open == '[' ? ']' : open == '(' ? ')' : '}';
  ++reader.at;
  while (reader.peek() != close) {
    const std::size_t begin = reader.at;
    if (open != '{' && reader.peek() == '{') {
      const std::optional<Record> record = read_record(reader);
      if (!record) return std::nullopt;
      const LiteralToken& id = record->id.value_or(LiteralToken{});
      result.entries_.push_back({begin, reader.at, 0, id.inner_begin, id.inner_end});
      found.emplace_back(record->id ? parse_digits(id.value).value() : found.size(), record->name);
    } else {
      const std::optional<LiteralToken> first = reader.token();
      if (!first) return std::nullopt;
      if (open == '{') {
        if (reader.peek() != ':') return std::nullopt;
        ++reader.at;
        const std::optional<LiteralToken> second = reader.token();
        if (!second) return std::nullopt;
        pairs.emplace_back(*first, *second);
      } else {
        if (!first->quoted && !parse_digits(first->value)) return std::nullopt;
        result.entries_.push_back({first->begin, first->end, 0});
        found.emplace_back(found.size(), first->value);
      }
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
    const LiteralToken& number = *by_index ? first : second;
    result.entries_.push_back({first.begin, second.end, 0, number.inner_begin, number.inner_end});
    found.emplace_back(parse_digits(number.value).value(), (*by_index ? second : first).value);
  }
  // Some elements with an index and some without cannot be told from an order.
  const auto spelled = std::ranges::count_if(
      result.entries_, [](const Entry& entry) { return entry.number_end > entry.number_begin; });
  if (spelled != 0 && static_cast<std::size_t>(spelled) != found.size()) return std::nullopt;
  if (!result.set_names(std::move(found))) return std::nullopt;
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
      out += std::to_string(entry.index - before + base_);
      out += text_.substr(entry.number_end, entry.end - entry.number_end);
    } else {
      out += text_.substr(entry.begin, entry.end - entry.begin);
    }
  }
  return out + text_.substr(entries_.back().end);
}

NameText NameText::escaped_in(std::string_view raw, std::span<const std::size_t> offsets) const {
  const std::size_t begin = offsets[0];
  NameText result = *this;
  result.text_ = raw.substr(begin, offsets[text_.size()] - begin);
  for (Entry& entry : result.entries_)
    for (std::size_t* at : {&entry.begin, &entry.end, &entry.number_begin, &entry.number_end})
      *at = offsets[*at] - begin;
  return result;
}

std::string unescaped(std::string_view text) {
  std::string out;
  LiteralReader reader(text);
  while (reader.at < text.size())
    if (text[reader.at] != '\\' || !reader.escape(out)) out.push_back(text[reader.at++]);
  return out;
}

bool is_class_name_key(std::string_view key) {
  return std::ranges::find(kKeys, key) != kKeys.end();
}

namespace {

std::vector<NameEntry> names_at_depth(std::string_view key, std::string_view value,
                                      std::size_t depth);

bool begins_with_any_of(std::string_view text, std::string_view characters) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  return first != std::string_view::npos && characters.find(text[first]) != std::string_view::npos;
}

// Names in the strings of a JSON or Python value, which are JSON themselves.
std::vector<NameEntry> names_in_strings(std::string_view key, std::string_view value,
                                        std::size_t depth) {
  std::vector<NameEntry> found;
  if (depth == kDeepestString || !begins_with_any_of(value, "[({\"'")) return found;
  LiteralReader reader(value);
  std::vector<std::size_t> offsets;
  std::string owner(key);  // the key under which the next string stands
  for (char next = reader.peek(); next != '\0'; next = reader.peek()) {
    if (next != '"' && next != '\'') {
      owner.clear();
      ++reader.at;
      continue;
    }
    const std::optional<LiteralToken> token = reader.string(offsets);
    if (!token) break;
    if (reader.peek() == ':') {
      owner = token->value;
      ++reader.at;
      continue;
    }
    if (!begins_with_any_of(token->value, "[({\"")) continue;
    std::vector<NameEntry> inside = names_at_depth(owner, token->value, depth + 1);
    if (inside.empty() && is_class_name_key(owner))  // a configuration under such a key
      inside = names_at_depth("", token->value, depth + 1);
    for (const NameEntry& entry : inside) {
      const auto from = std::span(offsets).subspan(entry.begin);
      found.push_back({from[0], entry.names.escaped_in(value, from)});
    }
  }
  return found;
}

std::vector<NameEntry> names_at_depth(std::string_view key, std::string_view value,
                                      std::size_t depth) {
  std::vector<NameEntry> found;
  if (is_class_name_key(key)) {
    if (begins_with_any_of(value, "\"'")) found = names_in_strings(key, value, depth);
    // In a string of a configuration, plain items are no JSON.
    if (!found.empty() || (depth > 0 && !begins_with_any_of(value, "[({"))) return found;
    const std::string separators = plain_separators(value);
    const std::size_t first = value.find_first_not_of(kBlanks);
    if (separators.size() == 2 && std::string_view("[({").find(value[first]) == std::string::npos) {
      // Either could be part of the names: the number of classes tells, unless it is the same.
      for (const char separator : separators)
        if (std::optional<NameText> names = NameText::parse_plain(value, separator))
          found.push_back({0, std::move(*names)});
      if (found.size() == 2 && found[0].names.names().size() == found[1].names.names().size())
        found.clear();
    } else if (std::optional<NameText> names = NameText::parse(value, key)) {
      found.push_back({0, std::move(*names)});
    }
    return found;
  }
  // A configuration with the names somewhere inside: "id2label": {...}
  for (const std::string_view name : kKeys) {
    for (const std::size_t begin : values_of(value, name)) {
      if (std::string_view("[({").find(value[begin]) == std::string_view::npos) continue;
      if (std::optional<NameText> names = NameText::parse(value.substr(begin), name))
        found.push_back({begin, std::move(*names)});
    }
  }
  // What can be read without a string around it, is.
  const auto end_of = [](const NameEntry& entry) { return entry.begin + entry.names.size(); };
  const std::size_t outside = found.size();
  for (NameEntry& entry : names_in_strings(key, value, depth)) {
    const bool apart =
        std::all_of(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(outside),
                    [&](const NameEntry& other) {
                      return end_of(entry) <= other.begin || end_of(other) <= entry.begin;
                    });
    if (apart) found.push_back(std::move(entry));
  }
  std::ranges::sort(found, {}, &NameEntry::begin);
  return found;
}

}  // namespace

std::vector<NameEntry> names_in_entry(std::string_view key, std::string_view value) {
  return names_at_depth(key, value, 0);
}

std::vector<std::string> unknown_spellings(std::string_view key, std::string_view value,
                                           std::size_t classes) {
  std::vector<std::string> unknown;
  if (is_class_name_key(key)) return unknown;
  std::set<std::size_t> known;
  for (const NameEntry& entry : names_in_entry(key, value))
    if (entry.names.names().size() == classes) known.insert(entry.begin);
  for (const std::string_view name : kKeys)
    for (const std::size_t begin : values_of(value, name)) {
      const char open = value[begin];
      if (known.contains(begin) || std::string_view("[({\"'\\").find(open) == std::string::npos)
        continue;
      // A single word, or nothing, is no list.
      const std::size_t quote = std::min(value.find_first_not_of('\\', begin), value.size() - 1);
      if (known.contains(quote + 1)) continue;  // in a string of its own
      const bool text = value[quote] == '"' || value[quote] == '\'';
      const std::size_t end =
          std::min(text ? value.find(value[quote], quote + 1) : value.find_first_of("])}", begin),
                   value.size());
      if (value.substr(begin, end - begin).find_first_of(",;") == std::string_view::npos) continue;
      unknown.emplace_back(name);
      break;
    }
  return unknown;
}

}  // namespace oubli
