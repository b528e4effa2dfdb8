#include "oubli/audit/figure.h"

#include <cmath>

#include "oubli/base/json_fields.h"

namespace oubli {

MeanStd mean_std(std::span<const double> values) {
  if (values.empty()) return {};
  double mean = 0;
  for (const double value : values) mean += value;
  mean /= static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean,
          values.size() < 2 ? 0.0 : std::sqrt(squares / static_cast<double>(values.size() - 1))};
}

void to_json(nlohmann::json& json, const Figure& figure) {
  json = nlohmann::json::object();
  if (!figure.value) {
    json["value"] = nullptr;
    json["reason"] = figure.reason;
    return;
  }
  json["value"] = *figure.value;
  if (figure.low) json["low"] = *figure.low;
  if (figure.high) json["high"] = *figure.high;
  if (!figure.low && !figure.reason.empty()) json["interval_reason"] = figure.reason;
}

void from_json(const nlohmann::json& json, Figure& figure) {
  figure = {};
  if (json.is_number()) return read_value(json, figure.value);
  read_field(json, "value", figure.value);
  read_field(json, "low", figure.low);
  read_field(json, "high", figure.high);
  read_field(json, figure.value ? "interval_reason" : "reason", figure.reason);
}

template <typename Fields>
void members(Fields& fields, MeanStd& figure) {
  fields.required("mean", figure.mean);
  fields.required("std", figure.std);
}

void to_json(nlohmann::json& json, const MeanStd& figure) { to_json<MeanStd>(json, figure); }
void from_json(const nlohmann::json& json, MeanStd& figure) { from_json<MeanStd>(json, figure); }

}  // namespace oubli
