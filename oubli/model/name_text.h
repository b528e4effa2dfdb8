#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace oubli {

// Class names written out in a text, found so that single ones can be cut without touching the
// rest of it. JSON or Python literals: a list, a dictionary from index to name, one from name to
// index, or a list of {"id": index, "name": name}; indices from 0 or from 1. Or plain items
// separated by line ends, commas or semicolons.
class NameText {
 public:
  // The literal or plain list that `text` is, or that begins at its front. Nothing if it is none.
  // `key`: what it stands under. It decides which side of a dictionary is the index where names are
  // numbers, too: label2id maps names to indices, every other key indices to names.
  static std::optional<NameText> parse(std::string_view text, std::string_view key = "names");

  // Plain items.
  static std::optional<NameText> parse_plain(std::string_view text, char separator);

  // By class index.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  // The text without the classes in `forget`, the indices behind them moved up. Quotes, spaces and
  // order stay as they are.
  [[nodiscard]] std::string without(std::span<const std::size_t> forget) const;
  // How much of the text the literal takes.
  [[nodiscard]] std::size_t size() const { return text_.size(); }
  // The same names where they are spelled with the escapes of a string around them: offsets[i] is
  // where character i of the text that was parsed stands in `raw`; one more for its end.
  [[nodiscard]] NameText escaped_in(std::string_view raw,
                                    std::span<const std::size_t> offsets) const;

 private:
  struct Entry {
    std::size_t begin, end;                        // of the whole entry in the text
    std::size_t index;                             // the class
    std::size_t number_begin = 0, number_end = 0;  // where its index is spelled out, if it is
  };

  // Takes the indices in `found`, one of each entry, and the names. False if they are not 0, 1, ...
  // or 1, 2, ... in any order.
  bool set_names(std::vector<std::pair<std::size_t, std::string>> found);

  std::string text_;
  std::vector<Entry> entries_;  // in the order of the text
  std::vector<std::string> names_;
  std::size_t base_ = 0;  // the index of the first class as it is spelled out
};

// The text with the escapes of JSON and Python resolved, as inside of quotes; what is no escape
// stays.
[[nodiscard]] std::string unescaped(std::string_view text);

// The keys under which class names stand in model metadata and configurations.
[[nodiscard]] bool is_class_name_key(std::string_view key);

// Class names in one metadata entry: its value, or a part of it under one of those keys, also where
// that is JSON in a string inside of JSON.
struct NameEntry {
  std::size_t begin = 0;  // of the part in the value
  NameText names;
};
[[nodiscard]] std::vector<NameEntry> names_in_entry(std::string_view key, std::string_view value);

// Those of the keys that stand inside of an entry with something that is no list of `classes` names
// in a known spelling: it may hold names and is not cut.
[[nodiscard]] std::vector<std::string> unknown_spellings(std::string_view key,
                                                         std::string_view value,
                                                         std::size_t classes);

}  // namespace oubli
