#include "oubli/model/torch/names.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "oubli/base/count.h"
#include "oubli/model/name_text.h"
#include "oubli/pickle/opcodes.h"

namespace oubli::torch {
namespace {

using pickle::Kind;
using pickle::kNothing;
using pickle::Pickle;
using pickle::Ref;

bool may_hold_names(std::string_view key) {
  static constexpr std::array<std::string_view, 10> kKeys{
      "class_to_idx", "idx_to_class", "class2idx",   "idx2class", "label_to_idx",
      "idx_to_label", "categories",   "label_names", "label_map", "vocab"};
  return is_class_name_key(key) || std::ranges::find(kKeys, key) != kKeys.end();
}

bool is_name(const Pickle& pickle, Ref ref) {
  constexpr std::size_t kLongestName = 4096;
  return pickle.is(ref, Kind::text) && pickle.text(ref).size() <= kLongestName;
}

// An integer, or digits.
std::optional<std::size_t> index_in(const Pickle& pickle, Ref ref) {
  if (pickle.is(ref, Kind::integer) && pickle.integer(ref) >= 0)
    return static_cast<std::size_t>(pickle.integer(ref));
  if (!pickle.is(ref, Kind::text)) return std::nullopt;
  return parse_digits(pickle.text(ref));
}

std::optional<NameList> read_list(const Pickle& pickle, Ref value, std::size_t classes) {
  const std::vector<pickle::Item> items = pickle.items(value);
  if (items.size() != classes) return std::nullopt;
  NameList list;
  const auto code = static_cast<std::uint8_t>(pickle.source()[pickle.operation(value).begin]);
  list.fixed = pickle.is(value, Kind::tuple) && code != pickle::op::kTuple;
  for (const pickle::Item& item : items) {
    if (!is_name(pickle, item.value)) return std::nullopt;
    list.names.emplace_back(pickle.text(item.value));
    list.extents.push_back(item.extent);
  }
  return list;
}

// {'cat': 0}, or {0: 'cat'}, or {'0': 'cat'}
std::optional<NameList> read_dictionary(const Pickle& pickle, Ref value, std::size_t classes,
                                        bool to_index) {
  const std::vector<pickle::Pair> pairs = pickle.pairs(value);
  if (pairs.size() != classes) return std::nullopt;
  NameList list;
  list.names.resize(classes);
  list.extents.resize(classes);
  std::vector<bool> seen(classes);
  for (const pickle::Pair& pair : pairs) {
    const Ref number = to_index ? pair.value : pair.key;
    const Ref name = to_index ? pair.key : pair.value;
    const auto index = index_in(pickle, number);
    if (!index || *index >= classes || seen[*index] || !is_name(pickle, name)) return std::nullopt;
    seen[*index] = true;
    list.names[*index] = pickle.text(name);
    list.extents[*index] = pair.extent;
    list.numbers.push_back({number, *index});
  }
  return list;
}

// Whether its numbers can be changed where they stand.
bool can_be_numbered(const Pickle& pickle, const NameList& list) {
  return !list.fixed && std::ranges::none_of(list.numbers, [&](const NameList::Number& number) {
    return pickle.shared(number.ref);
  });
}

}  // namespace

std::vector<NameList> find_name_lists(const Pickle& pickle, std::size_t classes) {
  std::vector<NameList> lists;
  std::set<Ref> seen;
  for (const Ref holder : pickle.reachable(pickle.root()))
    for (const pickle::Pair& pair : pickle.pairs(holder)) {
      if (!pickle.is(pair.key, Kind::text) || !may_hold_names(pickle.text(pair.key)) ||
          !seen.insert(pair.value).second)
        continue;
      std::optional<NameList> list = read_list(pickle, pair.value, classes);
      // Both sides may be digits: label2id maps names to indices, other keys the other way first.
      const bool to_index = pickle.text(pair.key) == "label2id";
      if (!list) list = read_dictionary(pickle, pair.value, classes, to_index);
      if (!list) list = read_dictionary(pickle, pair.value, classes, !to_index);
      if (!list) continue;
      list->key = pickle.text(pair.key);
      list->value = pair.value;
      lists.push_back(std::move(*list));
    }
  return lists;
}

std::vector<std::string> cut_names(const Pickle& pickle, std::span<const NameList> lists,
                                   std::span<const std::size_t> retained, pickle::Edits& edits) {
  const auto place = [&](std::size_t c) {
    const auto found = std::ranges::lower_bound(retained, c);
    return std::pair(found != retained.end() && *found == c,
                     static_cast<std::size_t>(found - retained.begin()));
  };
  std::vector<std::string> kept;
  std::vector<pickle::Extent> extents;
  std::vector<const NameList*> cut;
  for (const NameList& list : lists) {
    if (!can_be_numbered(pickle, list)) {
      kept.push_back(list.key);
      continue;
    }
    cut.push_back(&list);
    for (std::size_t c = 0; c < list.extents.size(); ++c)
      if (!place(c).first) extents.push_back(list.extents[c]);
  }
  if (!edits.remove(extents)) {
    for (const NameList* const list : cut) kept.push_back(list->key);
    return kept;
  }
  for (const NameList* const list : cut)
    for (const NameList::Number& number : list->numbers) {
      const auto [stays, index] = place(number.index);
      if (!stays || index == number.index) continue;
      if (pickle.is(number.ref, Kind::integer))
        edits.set_integer(number.ref, static_cast<std::int64_t>(index));
      else
        edits.set_text(number.ref, std::to_string(index));
    }
  return kept;
}

}  // namespace oubli::torch
