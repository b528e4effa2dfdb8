#include "oubli/experiment/results.h"

#include <fmt/format.h>

#include <set>

#include "oubli/base/json_fields.h"

namespace oubli {
namespace {

using nlohmann::json;

json to_json(const TreatmentResult& result) {
  json out = {{"method", name_of(result.treatment)},
              {"failed", result.failed},
              {"reason", result.reason},
              {"audit", nullptr}};
  if (result.audit) out["audit"] = *result.audit;
  if (result.means) {
    out["samples"] = to_text(result.means->samples);
    out["means_from"] = name_of(result.means->source);
  }
  return out;
}

// "normalization", "normalization, 10 of test"
std::string variant_of(const TreatmentResult& result) {
  std::string out = name_of(result.treatment);
  if (result.means)
    out += fmt::format(", {} of {}", to_text(result.means->samples), name_of(result.means->source));
  return out;
}

json to_json(const PartResult& part) {
  json out = {{"hidden", part.hidden},
              {"forgotten", part.forgotten},
              {"models", {{"seen", part.seen}, {"unseen", part.unseen}}},
              {"floor", nullptr},
              {"methods", json::array()}};
  if (part.second) out["models"]["second"] = *part.second;
  if (part.floor) out["floor"] = *part.floor;
  for (const TreatmentResult& result : part.treatments) out["methods"].push_back(to_json(result));
  return out;
}

}  // namespace

void from_json(const json& in, TreatmentResult& result) {
  require_named(in, "method", result.treatment, treatment_of);
  if (!member(in, "samples").is_null() || !member(in, "means_from").is_null()) {
    result.means.emplace();
    if (!member(in, "samples").is_null())
      require_named(in, "samples", result.means->samples, sample_count_of);
    if (!member(in, "means_from").is_null())
      require_named(in, "means_from", result.means->source, means_source_of);
  }
  read_field(in, "failed", result.failed);
  read_field(in, "reason", result.reason);
  read_field(in, "audit", result.audit);
}

void from_json(const json& in, PartResult& part) {
  read_field(in, "hidden", part.hidden);
  read_field(in, "forgotten", part.forgotten);
  if (const json& models = member(in, "models"); !models.is_null())
    at_place("models", [&] {
      read_field(models, "seen", part.seen);
      read_field(models, "unseen", part.unseen);
      read_field(models, "second", part.second);
    });
  read_field(in, "floor", part.floor);
  read_field(in, "methods", part.treatments);
  std::set<std::string> known;
  for (std::size_t i = 0; i < part.treatments.size(); ++i)
    if (!known.insert(variant_of(part.treatments[i])).second)
      fail(ErrorCode::bad_input, "methods[{}]: {} is there twice", i,
           variant_of(part.treatments[i]));
}

void to_json(json& out, const FailedNetwork& network) {
  out = {{"id", network.id}, {"reason", network.reason}};
}

void from_json(const json& in, FailedNetwork& network) {
  read_field(in, "id", network.id);
  read_field(in, "reason", network.reason);
}

void to_json(json& out, const Results& results) {
  out = {{"format", "oubli-results"},
         {"version", 1},
         {"experiment", results.experiment},
         {"data_set", results.data_set},
         {"architecture", results.architecture},
         {"seed", results.seed},
         {"config", results.config},
         {"class_names", results.class_names},
         {"failed", results.failed},
         {"parts", json::array()},
         {"each_class", json::array()},
         {"tables", results.tables}};
  for (const PartResult& part : results.parts) out["parts"].push_back(to_json(part));
  for (const PartResult& part : results.each_class) out["each_class"].push_back(to_json(part));
}

void from_json(const json& in, Results& results) {
  read_field(in, "experiment", results.experiment);
  read_field(in, "data_set", results.data_set);
  read_field(in, "architecture", results.architecture);
  read_field(in, "seed", results.seed);
  read_field(in, "config", results.config);
  read_field(in, "class_names", results.class_names);
  read_field(in, "failed", results.failed);
  read_field(in, "parts", results.parts);
  read_field(in, "each_class", results.each_class);
  read_field(in, "tables", results.tables);
}

}  // namespace oubli
