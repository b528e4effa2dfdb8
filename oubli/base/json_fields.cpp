#include "oubli/base/json_fields.h"

#include <fmt/format.h>

namespace oubli {

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
