#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "oubli/base/json.h"
#include "oubli/report/charts.h"

// Reading the JSON of other parts: what is absent or null gives the empty value. For .cpp files of
// this folder only.
namespace oubli::report {

[[nodiscard]] inline const nlohmann::json* find(const nlohmann::json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

[[nodiscard]] inline const nlohmann::json& list(const nlohmann::json& object, const char* key) {
  static const nlohmann::json empty = nlohmann::json::array();
  const nlohmann::json* found = find(object, key);
  return found != nullptr ? *found : empty;
}

[[nodiscard]] inline std::string text(const nlohmann::json& object, const char* key) {
  const nlohmann::json* found = find(object, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

[[nodiscard]] inline std::optional<double> number(const nlohmann::json& object, const char* key) {
  const nlohmann::json* found = find(object, key);
  return found != nullptr && found->is_number() ? std::optional(found->get<double>())
                                                : std::nullopt;
}

// A count; `otherwise` where there is none.
[[nodiscard]] inline std::size_t count(const nlohmann::json& object, const char* key,
                                       std::size_t otherwise = 0) {
  const nlohmann::json* found = find(object, key);
  return found != nullptr ? whole_number(*found) : otherwise;
}

// How many digits after the point a figure is to be shown with.
[[nodiscard]] inline int digits_of(const nlohmann::json& cell) {
  return static_cast<int>(std::min<std::size_t>(count(cell, "digits", 3), 17));
}

// {"value", "low", "high"}, {"value", "interval_reason"} or {"value": null, "reason"}
[[nodiscard]] inline Measured figure(const nlohmann::json& object, const char* key) {
  const nlohmann::json* found = find(object, key);
  if (found == nullptr) return {};
  if (found->is_number()) return {found->get<double>(), {}, {}, ""};
  const auto value = number(*found, "value");
  return {value, number(*found, "low"), number(*found, "high"),
          text(*found, value ? "interval_reason" : "reason")};
}

// {"mean", "std"} as mean, mean - std, mean + std.
[[nodiscard]] inline Measured mean_std(const nlohmann::json& found) {
  const double mean = found.at("mean").get<double>();
  const double deviation = found.at("std").get<double>();
  return {mean, mean - deviation, mean + deviation, ""};
}

// "97.0 ± 0.2" with both multiplied by `scale`; "not computed: `reason`" where there is none.
[[nodiscard]] inline std::string plus_minus(const nlohmann::json& object, const char* key,
                                            double scale, int digits, const std::string& reason) {
  const nlohmann::json* found = find(object, key);
  if (found == nullptr) return to_text(Measured{{}, {}, {}, reason});
  return fmt::format("{:.{}f} ± {:.{}f}", scale * found->at("mean").get<double>(), digits,
                     scale * found->at("std").get<double>(), digits);
}

}  // namespace oubli::report
