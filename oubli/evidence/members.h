#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "oubli/base/error.h"
#include "oubli/base/json.h"

namespace oubli {

// Members of JSON objects in evidence, which anybody may have written. Error{bad_input} names
// `what` and the member.

[[nodiscard]] inline const nlohmann::ordered_json& member(const nlohmann::ordered_json& object,
                                                          const char* name,
                                                          const std::string& what) {
  if (!object.is_object()) fail(ErrorCode::bad_input, "{}: wanted a JSON object", what);
  const auto found = object.find(name);
  if (found == object.end()) fail(ErrorCode::bad_input, "{}: no '{}'", what, name);
  return *found;
}

[[nodiscard]] inline std::string text_member(const nlohmann::ordered_json& object, const char* name,
                                             const std::string& what) {
  const auto& value = member(object, name, what);
  if (!value.is_string()) fail(ErrorCode::bad_input, "{}: '{}' is not a text", what, name);
  return value.get<std::string>();
}

[[nodiscard]] inline const nlohmann::ordered_json& list_member(const nlohmann::ordered_json& object,
                                                               const char* name,
                                                               const std::string& what) {
  const auto& value = member(object, name, what);
  if (!value.is_array()) fail(ErrorCode::bad_input, "{}: '{}' is not a list", what, name);
  return value;
}

// No member has another name.
inline void require_only(const nlohmann::ordered_json& object,
                         std::initializer_list<std::string_view> names, const std::string& what) {
  if (!object.is_object()) fail(ErrorCode::bad_input, "{}: wanted a JSON object", what);
  for (const auto& entry : object.items()) {
    bool known = false;
    for (const std::string_view name : names) known = known || name == entry.key();
    if (!known)
      fail(ErrorCode::bad_input, "{}: '{}' does not belong here, and nothing signs it", what,
           entry.key());
  }
}

}  // namespace oubli
