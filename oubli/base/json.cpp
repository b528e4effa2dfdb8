#include "oubli/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "oubli/base/error.h"
#include "oubli/base/json_fields.h"

namespace oubli {
namespace {

template <typename Json>
Json parse_checked(std::string_view text, const std::string& what) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  using Event = typename Json::parse_event_t;
  const auto check = [&](int depth, Event event, Json& parsed) {
    if (depth > kJsonDepth)
      fail(ErrorCode::bad_input, "{}: JSON nested more than {} deep", what, kJsonDepth);
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end && !keys.empty()) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.template get<std::string>()).second)
      fail(ErrorCode::bad_input, "{}: the key '{}' is there twice", what,
           parsed.template get<std::string>());
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const typename Json::exception& error) {  // also out_of_range: 1e999 is no double
    std::string_view reason = error.what();          // after the library's own name for it
    reason.remove_prefix(std::min(reason.size(), reason.find("] ") + 2));
    fail(ErrorCode::bad_input, "{}: not valid JSON: {}", what, reason);
  }
}

}  // namespace

nlohmann::ordered_json parse_json(std::string_view text, const std::string& what) {
  return parse_checked<nlohmann::ordered_json>(text, what);
}

nlohmann::json parse_document(std::string_view text, const std::string& what) {
  return parse_checked<nlohmann::json>(text, what);
}

std::string to_text(const nlohmann::ordered_json& document, int indent) {
  return document.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string to_text(const nlohmann::json& document, int indent) {
  return document.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool is_utf8(std::string_view text) try {
  (void)nlohmann::json(text).dump();
  return true;
} catch (const nlohmann::json::type_error&) {
  return false;
}

void refuse_number(const std::string& found, std::uint64_t largest) {
  throw nlohmann::json::type_error::create(
      302, fmt::format("{} where a whole number from 0 to {} is wanted", found, largest), nullptr);
}

void refuse_value(const nlohmann::json& found, std::string_view wanted) {
  const bool is_null = found.is_null();
  const std::string what = found.is_number() ? found.dump() : found.type_name();
  fail(ErrorCode::bad_input, ": {} where {} is wanted", is_null ? "nothing" : what, wanted);
}

void read_value(const nlohmann::json& value, std::string& into) {
  if (!value.is_string()) refuse_value(value, "text");
  value.get_to(into);
}

void read_value(const nlohmann::json& value, double& into) {
  if (!value.is_number()) refuse_value(value, "a number");
  value.get_to(into);
}

void read_value(const nlohmann::json& value, bool& into) {
  if (!value.is_boolean()) refuse_value(value, "true or false");
  value.get_to(into);
}

const nlohmann::json& member(const nlohmann::json& object, const char* key) {
  static const nlohmann::json null;
  if (!object.is_object()) refuse_value(object, "an object");
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

}  // namespace oubli
