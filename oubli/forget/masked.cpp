#include "oubli/forget/masked.h"

#include <nlohmann/json.hpp>

#include "oubli/forget/receipt.h"
#include "oubli/model/mentions.h"

namespace oubli {
namespace {

using Json = nlohmann::ordered_json;

// Not for people, as describe() is, but for making the same inputs again.
Json preparation_json(const PreparationOptions& used) {
  if (!used.scale) return {};
  return {{"scale", *used.scale},
          {"mean", used.mean},
          {"std", used.standard},
          {"layout", *used.channels_last ? "nhwc" : "nchw"},
          {"size", {used.size->first, used.size->second}},
          {"colour", *used.colour}};
}

}  // namespace

Masked::Masked(const ForgetInputs& inputs, const ForgetRequest& request) {
  for (const std::size_t c : request.forget)
    names_.merge(names_of_class(*inputs.model, request, c));
}

std::string Masked::name(std::string text) const {
  for (const std::string& forgotten : names_)
    if (mentions_name(text, forgotten)) text = without_name(text, forgotten);
  return text;
}

std::string Masked::sentence(std::string_view text) const {
  std::string masked;
  for (bool quoted = false;; quoted = !quoted) {
    const std::size_t end = text.find('\'');
    const std::string part(text.substr(0, end));
    masked += quoted ? name(part) : part;
    if (end == std::string_view::npos) return masked;
    masked += '\'';
    text.remove_prefix(end + 1);
  }
}

Json Masked::findings(std::span<const Finding> all) const {
  Json list = Json::array();
  for (const Finding& finding : all)
    list.push_back({{"where", name(finding.where)}, {"text", sentence(finding.text)}});
  return list;
}

Json Masked::files(std::span<const FileDigest> all) const {
  Json list = Json::array();
  for (const FileDigest& file : all) {
    list.push_back({{"role", file.role},
                    {"name", name(file.name)},
                    {"bytes", file.bytes},
                    {"sha256", file.sha256}});
    if (file.files != 1) list.back()["files"] = file.files;
  }
  return list;
}

Json Masked::head(const ModelFile& model, const std::string& sha256) const {
  Json json = head_json(model, sha256);
  json["name"] = name(json["name"].get<std::string>());
  return json;
}

Json Masked::run(const RunReport& report) const {
  Json json{{"data", name(report.data)},
            {"labels", sentence(report.labels)},
            {"inputs", report.preparation},
            {"preparation", preparation_json(report.preparation_as_used)},
            {"runtime", report.runtime},
            {"instructions", report.instructions},
            {"samples", report.samples},
            {"accuracy_before", report.accuracy},
            {"head_error_over_bound", report.head_mismatch}};
  if (!report.positions.empty()) json["positions_of_a_sample"] = report.positions;
  if (const ImageChanges& done = report.changes; done != ImageChanges{})
    json["images"] = {
        {"resized", done.resized}, {"squashed", done.squashed}, {"turned_grey", done.turned_grey}};
  if (report.as_float) json["run_as"] = "a float32 copy: the runtime has no bfloat16";
  return json;
}

}  // namespace oubli
