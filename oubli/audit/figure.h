#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

namespace oubli {

// A number with its 95 % interval, or the reason why there is none. Never silently absent.
struct Figure {
  std::optional<double> value;
  std::optional<double> low;  // 95 % interval, where one was computed
  std::optional<double> high;
  std::string reason;  // why there is no value, or none of its interval

  static Figure of(double value, std::string no_interval = {}) {
    return {.value = value, .low = {}, .high = {}, .reason = std::move(no_interval)};
  }
  static Figure missing(std::string reason) {
    return {.value = {}, .low = {}, .high = {}, .reason = std::move(reason)};
  }
};

// Mean and standard deviation over models (n - 1; 0 for one model).
struct MeanStd {
  double mean = 0;
  double std = 0;
};
[[nodiscard]] MeanStd mean_std(std::span<const double> values);

// {"value": .., "low": .., "high": ..}, {"value": .., "interval_reason": ".."} or
// {"value": null, "reason": ".."}; {"mean": .., "std": ..}. from_json: Error{bad_input} that begins
// with the place; a bare number is a figure, too.
void to_json(nlohmann::json& json, const Figure& figure);
void from_json(const nlohmann::json& json, Figure& figure);
void to_json(nlohmann::json& json, const MeanStd& figure);
void from_json(const nlohmann::json& json, MeanStd& figure);

}  // namespace oubli
