// What the page shows of a run's results.json (oubli/experiment/results.h).
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "oubli/base/error.h"
#include "oubli/report/audit_data.h"
#include "oubli/report/json_fields.h"
#include "oubli/report/read_report.h"
#include "oubli/report/verdict.h"

namespace oubli::report {
namespace {

using nlohmann::json;

// Methods whose means are the paper's: from all test predictions. The others are in the tables.
bool is_main_variant(const json& method) {
  const std::string samples = text(method, "samples");
  const std::string from = text(method, "means_from");
  return (samples.empty() || samples == "all") && (from.empty() || from == "test");
}

// Why a method has no audit.
std::string why_not_measured(const json& method) {
  const std::string reason = text(method, "reason");
  return reason.empty() ? "the file gives no reason" : reason;
}

// What to know of a part's figures, and which are not there at all.
std::vector<std::string> part_warnings(const json& part) {
  std::vector<std::string> out;
  for (const json& method : list(part, "methods")) {
    if (!is_main_variant(method)) continue;
    const std::string name = text(method, "method");
    if (const json* audit = find(method, "audit"))
      for (const std::string& warning : warnings_of(*audit))
        out.push_back(fmt::format("{}: {}", name, warning));
    else
      out.push_back(name + ": not measured: " + why_not_measured(method));
    for (const json& trial : list(method, "failed"))
      out.push_back(fmt::format("{}: network {} could not be filtered and is left out: {}", name,
                                text(trial, "id"), text(trial, "reason")));
  }
  if (const json* floor = find(part, "floor"))
    for (const std::string& warning : warnings_of(*floor)) out.push_back("floor: " + warning);
  return out;
}

Audit part_data(const json& part) {
  std::vector<AuditedMethod> methods;
  for (const json& method : list(part, "methods"))
    if (is_main_variant(method) && find(method, "audit") != nullptr)
      methods.emplace_back(text(method, "method"), find(method, "audit"));
  Audit out = audit_data(methods, find(part, "floor"));
  out.warnings = part_warnings(part);
  const json models = part.value("models", json::object());
  out.note = fmt::format(
      "{} networks trained on everything and then unlearned, {} retrained without the class, {} "
      "more retrained ones for the floor. Means of all test predictions.",
      count(models, "seen"), count(models, "unseen"), count(models, "second"));
  out.title = fmt::format("{} units", count(part, "hidden"));
  return out;
}

std::size_t models_of(const json& part) {
  const json* models = find(part, "models");
  return models == nullptr ? 0 : count(*models, "seen");
}

std::string cell_number(const json& cell, const char* key, const char* deviation, int digits) {
  const auto value = number(cell, key);
  if (!value) return "";
  const auto sd = number(cell, deviation);
  return sd ? fmt::format("{:.{}f} ± {:.{}f}", *value, digits, *sd, digits)
            : fmt::format("{:.{}f}", *value, digits);
}

// The cell of the same measure for another observer.
const json* other_observer(const json& cells, const json& cell, const char* observer) {
  for (const json& other : cells)
    if (text(other, "measure") == text(cell, "measure") && text(other, "observer") == observer)
      return &other;
  return nullptr;
}

std::string ours_of(const json& cell, int digits) {
  const std::string ours = cell_number(cell, "ours", "ours_sd", digits);
  return ours.empty() ? text(cell, "reason") : ours;
}

std::string join_words(const json& words) {
  std::string out;
  for (const json& word : words)
    if (const auto text = word.get<std::string>(); !text.empty() && text != "-")
      out += (out.empty() ? "" : ", ") + text;
  return out;
}

// Ours with its interval beside the paper's, a picture per group of inputs.
std::vector<DotChart> published_charts(const json& source) {
  std::vector<DotChart> out;
  for (const json& row : list(source, "rows")) {
    const std::string group = text(row, "group");
    for (const json& cell : list(row, "cells")) {
      const auto paper = number(cell, "paper");
      const auto ours = number(cell, "ours");
      // Advantages and distances; accuracies and losses are on other scales.
      if (!paper || text(cell, "observer") != "logits") continue;
      if (out.empty() || out.back().title != group) {
        DotChart chart;
        chart.title = group;
        chart.axis = "paper and ours, 95 % interval; observer sees logits";
        chart.description = "Observer sees logits. ";
        chart.floor_name = "floor: retrained against retrained";
        chart.high = 0.2;
        chart.series = {{"ours", 0}, {"paper", 5}};
        out.push_back(std::move(chart));
      }
      DotChart& chart = out.back();
      DotChart::Row line;
      line.label = join_words(list(row, "keys")) + ": " + text(cell, "measure");
      const Measured mine{ours, number(cell, "low"), number(cell, "high"),
                          text(cell, ours ? "interval_reason" : "reason")};
      line.marks = {{0, mine}, {1, {paper, {}, {}, ""}}};
      if (const auto floor = number(cell, "floor")) line.floor = {floor, {}, {}, ""};
      chart.description +=
          fmt::format("{}: ours {}, paper {:.3f}. ", line.label, to_text(mine), *paper);
      chart.high = std::max({chart.high, *paper, mine.high.value_or(ours.value_or(0))});
      chart.rows.push_back(std::move(line));
    }
  }
  for (DotChart& chart : out) chart.high = std::min(1.0, std::ceil(chart.high * 10 - 1e-9) / 10);
  return out;
}

// One row per cell: keys, measure, paper, ours, interval, floor, and what other observers see.
NamedTable published_table(const json& source) {
  NamedTable out;
  out.title = text(source, "title");
  if (const std::string number = text(source, "number"); !number.empty())
    out.title = fmt::format("Table {} ({}): {}", number, text(source, "place"), out.title);
  for (const json& note : list(source, "notes")) out.note += note.get<std::string>() + " ";
  const auto keys = count(source, "keys");
  const bool observers = std::ranges::any_of(list(source, "rows"), [](const json& row) {
    const json& cells = list(row, "cells");
    return std::ranges::any_of(cells, [&](const json& cell) {
      return text(cell, "observer") == "logits" && other_observer(cells, cell, "label") != nullptr;
    });
  });
  out.table.columns.push_back({"inputs"});
  for (std::size_t j = 0; j < keys; ++j)
    out.table.columns.push_back({list(source, "columns").at(j).get<std::string>()});
  out.table.columns.push_back({"measure"});
  out.table.columns.push_back({"observer"});
  for (const char* name : {"paper", "ours", "95 % interval", "floor"})
    out.table.columns.push_back({name, true});
  if (observers)
    for (const char* name : {"ours, probabilities", "ours, top-1 label"})
      out.table.columns.push_back({name, true});
  for (const json& row : list(source, "rows")) {
    for (const json& cell : list(row, "cells")) {
      if (observers && text(cell, "observer") != "logits") continue;
      const int digits = digits_of(cell);
      std::vector<std::string> line{text(row, "group")};
      for (std::size_t j = 0; j < keys; ++j)
        line.push_back(row.at("keys").at(j).get<std::string>());
      line.push_back(text(cell, "measure"));
      const std::string observer = text(cell, "observer");
      line.push_back(observer == "label" ? "top-1 label" : observer);
      line.push_back(cell_number(cell, "paper", "paper_sd", digits));
      line.push_back(ours_of(cell, digits));
      const auto low = number(cell, "low");
      const auto high = number(cell, "high");
      line.push_back(low && high ? fmt::format("{:.{}f} to {:.{}f}", *low, digits, *high, digits)
                                 : "");
      line.push_back(cell_number(cell, "floor", "", digits));
      if (observers)
        for (const char* second : {"probabilities", "label"}) {
          const json* other = other_observer(list(row, "cells"), cell, second);
          line.push_back(other == nullptr ? "" : ours_of(*other, digits));
        }
      out.table.rows.push_back(std::move(line));
    }
  }
  out.table = without_empty_columns(out.table);
  out.charts = published_charts(source);
  return out;
}

// What the strongest attack on one method reaches for an observer, or why that is not known.
Measured strongest_of(const json& method, const std::string& observer) {
  const json* audit = find(method, "audit");
  if (audit == nullptr) return {{}, {}, {}, why_not_measured(method)};
  const std::string name = text(method, "method");
  const Audit data = audit_data({{name, audit}}, nullptr);
  const auto verdicts = judge(data, name);
  const auto found = std::ranges::find(verdicts, observer, &ObserverVerdict::observer);
  if (found == verdicts.end()) return {{}, {}, {}, "not measured for " + seen_by(observer)};
  return found->worst != nullptr ? found->worst->forgotten : Measured{{}, {}, {}, found->reason};
}

// Of those measured, the observer who sees most.
std::string widest_observer(const json& each_class) {
  std::set<std::string> measured;
  for (const json& entry : each_class)
    for (const json& method : list(entry, "methods"))
      if (const json* audit = find(method, "audit"))
        for (const Leak& leak : audit_data({{"", audit}}, nullptr).leaks)
          measured.insert(leak.observer);
  for (const char* observer : {"logits", "probabilities", "label"})
    if (measured.contains(observer)) return observer;
  return measured.empty() ? "logits" : *measured.begin();
}

// Forgetting each class in turn: the strongest attack.
DotChart each_class_chart(const json& document) {
  DotChart chart;
  chart.title = "Each class forgotten in turn";
  const std::string observer = widest_observer(list(document, "each_class"));
  chart.axis = "advantage of the strongest attack, observer sees " + seen_by(observer);
  chart.description = fmt::format("Observer sees {}. ", seen_by(observer));
  chart.high = 0.2;
  for (const json& entry : list(document, "each_class")) {
    DotChart::Row row;
    for (const json& label : list(entry, "forgotten"))
      row.label += (row.label.empty() ? "" : ", ") + class_name(document, whole_number(label));
    for (const json& method : list(entry, "methods")) {
      const std::string name = text(method, "method");
      const Measured m = strongest_of(method, observer);
      auto series = std::ranges::find(chart.series, name, &Series::name);
      if (series == chart.series.end()) series = chart.series.insert(series, series_of(name));
      if (m.value) chart.high = std::max(chart.high, std::min(1.0, m.high.value_or(*m.value)));
      chart.description += fmt::format("{}, {}: {}. ", row.label, name, to_text(m, 2));
      row.marks.push_back({static_cast<std::size_t>(series - chart.series.begin()), m});
    }
    if (!row.marks.empty()) chart.rows.push_back(std::move(row));
  }
  chart.high = std::min(1.0, std::ceil(chart.high * 10 - 1e-9) / 10);
  return chart;
}

}  // namespace

void add_results(ReportData& data, const json& document) {
  std::vector<const json*> parts;
  for (const json& part : list(document, "parts")) parts.push_back(&part);
  // The one with the most networks is judged.
  std::ranges::stable_sort(
      parts, [](const json* a, const json* b) { return models_of(*a) > models_of(*b); });
  const std::size_t first = data.audits.size();
  for (const json* part : parts) data.audits.push_back(part_data(*part));
  if (data.title.empty()) {
    data.title = text(document, "experiment");
    if (data.audits.size() > first)
      data.title += ": forgetting " + join(data.audits[first].forgotten);
  }
  if (data.audits.size() > first)
    if (DotChart chart = each_class_chart(document); !chart.rows.empty())
      data.audits[first].charts.push_back(std::move(chart));

  for (const json& source : list(document, "tables"))
    if (NamedTable named = published_table(source); !named.table.rows.empty())
      data.published.push_back(std::move(named));
  if (const json& failed = list(document, "failed"); !failed.empty())
    for (const json& trial : failed)
      data.not_tested.push_back(
          fmt::format("Network {} is missing: {}", text(trial, "id"), text(trial, "reason")));
  data.not_tested.emplace_back(
      "Observers who hold the file itself: they can look at weights and features.");
  data.provenance.emplace_back("data set", text(document, "data_set"));
  data.provenance.emplace_back("seed", document.contains("seed") ? document.at("seed").dump() : "");
}

}  // namespace oubli::report
