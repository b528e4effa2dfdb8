#pragma once

#include <string>

#include "oubli/base/json_fields.h"

// Reading receipts and inversions, which the page shows almost as they are. For .cpp files of this
// folder only.
namespace oubli::report {

// Null if it is absent or null.
[[nodiscard]] inline const nlohmann::json* find(const nlohmann::json& object, const char* key) {
  const nlohmann::json& found = member(object, key);
  return found.is_null() ? nullptr : &found;
}

// Without entries if it is absent or null.
[[nodiscard]] inline const nlohmann::json& list(const nlohmann::json& object, const char* key) {
  static const nlohmann::json empty = nlohmann::json::array();
  const nlohmann::json* found = find(object, key);
  if (found == nullptr) return empty;
  if (!found->is_array()) at_place(key, [&] { refuse_value(*found, "a list"); });
  return *found;
}

// `T()` if it is absent or null.
template <typename T>
[[nodiscard]] T field(const nlohmann::json& object, const char* key) {
  T value{};
  read_field(object, key, value);
  return value;
}

[[nodiscard]] inline std::string text(const nlohmann::json& object, const char* key) {
  return field<std::string>(object, key);
}

}  // namespace oubli::report
