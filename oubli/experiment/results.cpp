#include "oubli/experiment/results.h"

#include <fmt/format.h>

#include <set>

#include "oubli/base/json_fields.h"

namespace oubli {

using nlohmann::json;

template <typename Fields>
void members(Fields& fields, FailedNetwork& network) {
  fields("id", network.id);
  fields("reason", network.reason);
}

template <typename Fields>
void members(Fields& fields, TreatmentResult& result) {
  fields.named("method", result.treatment, treatment_of);
  fields("failed", result.failed);
  fields("reason", result.reason);
  fields("audit", result.audit);
}

void to_json(json& out, const TreatmentResult& result) {
  to_json<TreatmentResult>(out, result);
  if (!result.means) return;
  out["samples"] = to_text(result.means->samples);
  out["means_from"] = name_of(result.means->source);
}

void from_json(const json& in, TreatmentResult& result) {
  from_json<TreatmentResult>(in, result);
  const auto read = [&](const char* key, auto MeansOf::*into, const auto& named) {
    if (member(in, key).is_null()) return;
    if (!result.means) result.means.emplace();
    require_named(in, key, *result.means.*into, named);
  };
  read("samples", &MeansOf::samples, sample_count_of);
  read("means_from", &MeansOf::source, means_source_of);
}

template <typename Fields>
void members(Fields& fields, PartResult& part) {
  fields("hidden", part.hidden);
  fields("forgotten", part.forgotten);
  fields.object("models", [&](auto& models) {
    models("seen", part.seen);
    models("unseen", part.unseen);
    models.unless_empty("second", part.second);
  });
  fields("floor", part.floor);
  fields("methods", part.treatments);
}

// "normalization", "normalization, 10 of test"
std::string variant_of(const TreatmentResult& result) {
  std::string out = name_of(result.treatment);
  if (result.means)
    out += fmt::format(", {} of {}", to_text(result.means->samples), name_of(result.means->source));
  return out;
}

void from_json(const json& in, PartResult& part) {
  from_json<PartResult>(in, part);
  std::set<std::string> known;
  for (std::size_t i = 0; i < part.treatments.size(); ++i)
    if (const std::string name = variant_of(part.treatments[i]); !known.insert(name).second)
      fail(ErrorCode::bad_input, "methods[{}]: {} is there twice", i, name);
}

template <typename Fields>
void members(Fields& fields, Results& results) {
  fields.written("format", "oubli-results");
  fields.written("version", 1);
  fields("experiment", results.experiment);
  fields("data_set", results.data_set);
  fields("architecture", results.architecture);
  fields("seed", results.seed);
  fields("config", results.config);
  fields("class_names", results.class_names);
  fields("failed", results.failed);
  fields("parts", results.parts);
  fields("each_class", results.each_class);
  fields("tables", results.tables);
}

void to_json(json& out, const FailedNetwork& network) { to_json<FailedNetwork>(out, network); }
void from_json(const json& in, FailedNetwork& network) { from_json<FailedNetwork>(in, network); }
void to_json(json& out, const Results& results) { to_json<Results>(out, results); }
void from_json(const json& in, Results& results) { from_json<Results>(in, results); }

}  // namespace oubli
