#include "oubli/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "oubli/base/error.h"

namespace oubli {

nlohmann::ordered_json parse_json(std::string_view text, const std::string& what) {
  using Json = nlohmann::ordered_json;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kJsonDepth)
      fail(ErrorCode::bad_input, "{}: JSON nested more than {} deep", what, kJsonDepth);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      fail(ErrorCode::bad_input, "{}: the key '{}' is there twice", what,
           parsed.get<std::string>());
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::exception& error) {   // also out_of_range: 1e999 is no double
    std::string_view reason = error.what();  // after the library's own name for it
    reason.remove_prefix(std::min(reason.size(), reason.find("] ") + 2));
    fail(ErrorCode::bad_input, "{}: not valid JSON: {}", what, reason);
  }
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

}  // namespace oubli
