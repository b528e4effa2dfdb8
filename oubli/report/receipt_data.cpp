// What the page shows of a receipt (oubli/forget/receipt.h).
#include <fmt/format.h>

#include "oubli/report/html.h"
#include "oubli/report/json_fields.h"
#include "oubli/report/read_report.h"
#include "oubli/report/verdict.h"

namespace oubli::report {
namespace {

using nlohmann::json;
using enum TextTable::Align;

// The receipt keeps no name of what was forgotten.
std::string class_of(std::size_t label) { return fmt::format("class {}", label); }

std::string number_text(const json& object, const char* key) {
  const auto value = field<std::optional<double>>(object, key);
  return value ? fmt::format("{:.3g}", *value) : std::string();
}

void add_leak_checks(Receipt& out, const json& check) {
  for (const json& row : list(check, "rows")) {
    const std::string prefix =
        out.forgotten.size() > 1 ? class_of(field<std::size_t>(row, "class")) + ", " : "";
    Observer observer = Observer::logits;
    if (find(row, "observer") != nullptr)
      require_named(row, "observer", observer, value_named<Observer>);
    const auto add = [&](const char* key, const char* title) {
      const json* found = find(row, key);
      if (found == nullptr) return;
      out.leak_checks.push_back({.observer = observer,
                                 .read_out = prefix + title,
                                 .naive = field<Figure>(*found, "naive"),
                                 .chosen = field<Figure>(*found, "chosen")});
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
      TextTable({{"old output", right}, {"new output", right}, {"name"}, {"samples used", right}})};
  for (const json& entry : list(document, "classes")) {
    const auto number = [&](const char* key, const char* otherwise) {
      const auto value = field<std::optional<std::size_t>>(entry, key);
      return value ? std::to_string(*value) : otherwise;
    };
    out.table.add_row({number("old", "?"), number("new", "forgotten"), text(entry, "name"),
                       number("samples", "")});
  }
  out.table = without_empty_columns(out.table);
  return out;
}

NamedTable findings_table(const json& document) {
  NamedTable out{"Where else the file mentions classes", "What a scan of the file found.",
                 TextTable({{"where"}, {"what"}})};
  for (const json& finding : list(document, "findings"))
    out.table.add_row({text(finding, "where"), text(finding, "text")});
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
  if (const json* step = find(document, "curvature"))
    add("tensors changed", join(field<std::vector<std::string>>(*step, "tensors_changed")));
  if (const json* calibration = find(document, "calibration");
      calibration != nullptr && find(*calibration, "means_of") != nullptr)
    add("class means",
        fmt::format("of {}, from {}", text(*calibration, "means_of"), text(*calibration, "from")));
  if (const json* input = find(document, "input"))
    if (const json* head = find(*input, "head"))
      add("head", fmt::format("{}, {} classes x {} features, {}", text(*head, "name"),
                              field<std::size_t>(*head, "classes"),
                              field<std::size_t>(*head, "features"), text(*head, "dtype")));
  if (field<bool>(document, "bias_added")) add("bias", "added: the old head had none");
  if (const json* check = find(document, "self_check");
      check != nullptr && find(*check, "vectors") != nullptr)
    add("self-check", fmt::format("passed on {} vectors; largest error {} of its bound",
                                  field<std::size_t>(*check, "vectors"),
                                  number_text(*check, "error_over_bound")));
  if (const json* leaks = find(document, "leak_check"))
    add("top-1 labels changed against naive deletion",
        fmt::format("{} of {} samples", field<std::size_t>(*leaks, "label_flips_against_naive"),
                    field<std::optional<std::size_t>>(*leaks, "label_flips_samples")
                        .value_or(field<std::size_t>(*leaks, "samples"))));
  for (const std::string& warning : field<std::vector<std::string>>(document, "warnings"))
    add("warning", warning);
  if (find(document, "signature") != nullptr)
    add("signature", "there is one; 'oubli verify' checks it, this page does not");
}

}  // namespace

void add_receipt(ReportData& data, const json& document) {
  Receipt out;
  std::vector<std::size_t> forgotten;
  at_place("request", [&] {
    require_field(member(document, "request"), "method", out.method);
    require_field(member(document, "request"), "forget", forgotten);
  });
  for (const std::size_t label : forgotten) out.forgotten.push_back(class_of(label));
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
  for (std::string& entry : field<std::vector<std::string>>(document, "not_checked"))
    data.not_tested.push_back(std::move(entry));
  for (std::string& entry : field<std::vector<std::string>>(document, "limits"))
    data.limits.push_back(std::move(entry));
  data.receipt = std::move(out);
}

}  // namespace oubli::report
