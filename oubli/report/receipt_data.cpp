// What the page shows of a receipt (oubli/forget/receipt.h).
#include <nlohmann/json.hpp>

#include "oubli/base/error.h"
#include "oubli/report/json_fields.h"
#include "oubli/report/read_report.h"
#include "oubli/report/verdict.h"

namespace oubli::report {
namespace {

using nlohmann::json;

// The receipt keeps no name of what was forgotten.
std::string class_of(std::size_t label) { return fmt::format("class {}", label); }

std::string number_text(const json& object, const char* key) {
  const auto value = number(object, key);
  return value ? fmt::format("{:.3g}", *value) : std::string();
}

void add_leak_checks(Receipt& out, const json& check) {
  const json& rows = list(check, "rows");
  for (const json& row : rows) {
    const std::string prefix =
        out.forgotten.size() > 1 ? class_of(whole_number(row.at("class"))) + ", " : "";
    const auto add = [&](const char* key, const char* title) {
      const json* found = find(row, key);
      if (found == nullptr) return;
      out.leak_checks.push_back({.observer = text(row, "observer"),
                                 .read_out = prefix + title,
                                 .naive = figure(*found, "naive"),
                                 .chosen = figure(*found, "chosen")});
    };
    add("ghost_logit", "mean of the retained logits");
    add("linear_readout", "best linear read-out");
  }
}

void add_files(Receipt& out, const json& document, const char* key, const char* word) {
  const json* part = find(document, key);
  if (part == nullptr) return;
  for (const json& file : list(*part, "files"))
    out.digests.emplace_back(fmt::format("{} {}: {}", word, text(file, "role"), text(file, "name")),
                             text(file, "sha256"));
}

NamedTable class_table(const json& document) {
  NamedTable out{
      "Which output is which now", "",
      Table{{{"old output", true}, {"new output", true}, {"name"}, {"samples used", true}}, {}}};
  for (const json& entry : list(document, "classes")) {
    const json* now = find(entry, "new");
    const json* samples = find(entry, "samples");
    out.table.rows.push_back({entry.at("old").dump(), now != nullptr ? now->dump() : "forgotten",
                              text(entry, "name"), samples != nullptr ? samples->dump() : ""});
  }
  out.table = without_empty_columns(out.table);
  return out;
}

NamedTable findings_table(const json& document) {
  NamedTable out{"Where else the file mentions classes", "What a scan of the file found.",
                 Table{{{"where"}, {"what"}}, {}}};
  for (const json& finding : list(document, "findings"))
    out.table.rows.push_back({text(finding, "where"), text(finding, "text")});
  return out;
}

void add_facts(Receipt& out, const json& document) {
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) out.facts.emplace_back(name, value);
  };
  add("forgotten", join(out.forgotten));
  add("method", out.method);
  if (const json* solver = find(document, "solver")) {
    add("solver", text(*solver, "chosen") + ": " + text(*solver, "reason"));
    add("conditioning (1 is best)", number_text(*solver, "conditioning"));
  }
  if (const json* calibration = find(document, "calibration"))
    add("class means",
        fmt::format("of {}, from {}", text(*calibration, "means_of"), text(*calibration, "from")));
  if (const json* input = find(document, "input"))
    if (const json* head = find(*input, "head"))
      add("head", fmt::format("{}, {} classes x {} features, {}", text(*head, "name"),
                              head->at("classes").dump(), head->at("features").dump(),
                              text(*head, "dtype")));
  if (document.value("bias_added", false)) add("bias", "added: the old head had none");
  if (const json* check = find(document, "self_check"))
    add("self-check",
        fmt::format("passed on {} vectors; largest error {} of its bound", count(*check, "vectors"),
                    number_text(*check, "error_over_bound")));
  if (const json* leaks = find(document, "leak_check"))
    add("top-1 labels changed against naive deletion",
        fmt::format("{} of {} samples", count(*leaks, "label_flips_against_naive"),
                    count(*leaks, "label_flips_samples", count(*leaks, "samples"))));
  for (const json& warning : list(document, "warnings")) add("warning", warning.get<std::string>());
  if (find(document, "signature") != nullptr)
    add("signature", "there is one; 'oubli verify' checks it, this page does not");
}

}  // namespace

void add_receipt(ReportData& data, const json& document) {
  Receipt out;
  const json& request = document.at("request");
  out.method = text(request, "method");
  for (const json& label : list(request, "forget"))
    out.forgotten.push_back(class_of(whole_number(label)));
  if (const json* check = find(document, "leak_check")) add_leak_checks(out, *check);
  add_facts(out, document);
  add_files(out, document, "input", "old");
  add_files(out, document, "output", "new");
  for (NamedTable& named : std::vector{class_table(document), findings_table(document)})
    if (!named.table.rows.empty()) out.tables.push_back(std::move(named));

  if (data.title.empty()) {
    data.title = "A class forgotten";
    if (const json* output = find(document, "output"))
      for (const json& file : list(*output, "files"))
        if (text(file, "role") == "model") data.title = text(file, "name");
  }
  for (const json& entry : list(document, "not_checked"))
    data.not_tested.push_back(entry.get<std::string>());
  for (const json& entry : list(document, "limits"))
    data.limits.push_back(entry.get<std::string>());
  data.receipt = std::move(out);
}

}  // namespace oubli::report
