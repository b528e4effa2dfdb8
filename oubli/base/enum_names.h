#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oubli {

// The names of an enum's values, once: beside the enum stands
//   template <>
//   struct EnumNames<Attack> {
//     static constexpr std::string_view kWhat = "attack";
//     static constexpr EnumName<Attack> kTable[] = {{Attack::forest, "forest"}, ...};
//   };
// and parsing, help texts and errors follow.
template <class Enum>
struct EnumName {
  Enum value;
  std::string_view name;
};
template <class Enum>
struct EnumNames;

template <class Enum>
concept Named = requires {
  EnumNames<Enum>::kTable[0].name;
};

template <Named Enum>
[[nodiscard]] constexpr std::string_view name_of(Enum value) {
  for (const EnumName<Enum>& entry : EnumNames<Enum>::kTable)
    if (entry.value == value) return entry.name;
  return "?";
}

// The value of that name; nothing if there is none.
template <Named Enum>
[[nodiscard]] constexpr std::optional<Enum> find_named(std::string_view name) {
  for (const EnumName<Enum>& entry : EnumNames<Enum>::kTable)
    if (entry.name == name) return entry.value;
  return std::nullopt;
}

template <Named Enum>
[[nodiscard]] std::vector<Enum> all_values() {
  std::vector<Enum> values;
  for (const EnumName<Enum>& entry : EnumNames<Enum>::kTable) values.push_back(entry.value);
  return values;
}

template <Named Enum>
[[nodiscard]] std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const EnumName<Enum>& entry : EnumNames<Enum>::kTable) names.emplace_back(entry.name);
  return names;
}

// Error{usage}: no `what` has this name; the nearest one, and all.
[[noreturn]] void fail_unnamed(std::string_view what, std::string_view name,
                               std::span<const std::string> names);

// The value of that name. Error{usage} with the nearest name and all names if there is none.
template <Named Enum>
[[nodiscard]] Enum value_named(std::string_view name) {
  if (const auto value = find_named<Enum>(name)) return *value;
  fail_unnamed(EnumNames<Enum>::kWhat, name, all_names<Enum>());
}

// "a, b or c": for help texts.
[[nodiscard]] std::string or_list(std::span<const std::string> words);

}  // namespace oubli
