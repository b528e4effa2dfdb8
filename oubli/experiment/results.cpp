#include "oubli/experiment/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "oubli/base/file.h"
#include "oubli/base/text_table.h"
#include "oubli/experiment/analysis.h"
#include "oubli/experiment/tables.h"

namespace oubli {
namespace {

using nlohmann::json;

json method_entry(const AuditTask& task, const json& file) {
  json entry = {{"method", task.method},
                {"failed", file.at("failed")},
                {"reason", file.at("reason")},
                {"audit", file.at("audit")}};
  if (!task.samples.empty()) {
    entry["samples"] = task.samples;
    entry["means_from"] = task.means_from;
  }
  return entry;
}

// Fixed digits; never "-0.000".
std::string fixed(double value, int digits) {
  std::string text = fmt::format("{:.{}f}", value, digits);
  if (text.starts_with('-') && text.find_first_not_of("-0.") == std::string::npos) text.erase(0, 1);
  return text;
}

std::string number(const json& cell, const char* key, const char* deviation) {
  if (!cell.contains(key)) return "";
  const int digits = cell.value("digits", 3);
  const int first = std::string_view(key) == "paper" ? cell.value("paper_digits", digits) : digits;
  std::string text = fixed(cell.at(key).get<double>(), first);
  if (cell.contains(deviation)) {
    const int second = std::string_view(key) == "paper" ? 2 : digits;
    text += fmt::format(" ± {:.{}f}", cell.at(deviation).get<double>(), second);
  }
  return text;
}

std::string interval(const json& cell) {
  if (!cell.contains("low") || !cell.contains("high")) return "";
  const int digits = cell.value("digits", 3);
  return fmt::format("{:.{}f} to {:.{}f}", cell.at("low").get<double>(), digits,
                     cell.at("high").get<double>(), digits);
}

std::string ours(const json& cell) {
  const std::string text = number(cell, "ours", "ours_sd");
  return text.empty() ? cell.value("reason", "") : text;
}

// The cell of the same measure for another observer, where the table has one.
const json* other_observer(const json& cells, const json& cell, const char* observer) {
  for (const json& other : cells) {
    if (other.at("measure") == cell.at("measure") && other.at("observer") == observer)
      return &other;
  }
  return nullptr;
}

TextTable text_table(const json& table) {
  using Align = TextTable::Align;
  const std::size_t keys = table.at("keys");
  const json& rows = table.at("rows");
  const auto any = [&](const char* key) {
    return std::ranges::any_of(rows, [&](const json& row) {
      return std::ranges::any_of(row.at("cells"), [&](const json& c) { return c.contains(key); });
    });
  };
  // An observer's own column stands beside the logits' if the table has logits at all.
  const bool observers = std::ranges::any_of(rows, [](const json& row) {
    const json& cells = row.at("cells");
    return std::ranges::any_of(cells, [&](const json& c) {
      return c.at("observer") == "logits" && other_observer(cells, c, "label") != nullptr;
    });
  });
  const bool paper = any("paper");
  const bool intervals = any("low");
  const bool floors = any("floor");
  std::vector<TextTable::Column> columns = {{"inputs", Align::left}};
  for (std::size_t i = 0; i < keys; ++i) columns.push_back({table.at("columns")[i], Align::left});
  columns.push_back({"measure", Align::left});
  if (paper) columns.push_back({"paper", Align::right});
  columns.push_back({"ours", Align::right});
  if (intervals) columns.push_back({"95 % interval", Align::right});
  if (floors) columns.push_back({"floor", Align::right});
  if (observers) {
    columns.push_back({"probabilities", Align::right});
    columns.push_back({"label", Align::right});
  }
  TextTable text(columns);
  std::string group;
  for (const json& row : rows) {
    if (row.at("group") != group && !group.empty()) text.add_rule();
    group = row.at("group");
    for (const json& cell : row.at("cells")) {
      if (observers && cell.at("observer") != "logits") continue;
      std::vector<std::string> line = {group};
      for (const json& key : row.at("keys")) line.push_back(key);
      line.push_back(cell.at("measure"));
      if (paper) line.push_back(number(cell, "paper", "paper_sd"));
      line.push_back(ours(cell));
      if (intervals) line.push_back(interval(cell));
      if (floors) line.push_back(number(cell, "floor", ""));
      if (observers) {
        for (const char* observer : {"probabilities", "label"}) {
          const json* other = other_observer(row.at("cells"), cell, observer);
          line.push_back(other == nullptr ? "" : ours(*other));
        }
      }
      text.add_row(std::move(line));
    }
  }
  return text;
}

std::string title_of(const json& table) {
  if (!table.contains("number")) return table.at("title");
  return fmt::format("Table {} ({}): {}", table.at("number").get<std::string>(),
                     table.at("place").get<std::string>(), table.at("title").get<std::string>());
}

}  // namespace

json assemble_results(const RunFolder& folder) {
  const RunConfig& config = folder.config();
  const Recipe& recipe = recipe_of(config.experiment);
  json results = {{"format", "oubli-results"},
                  {"version", 1},
                  {"experiment", config.experiment},
                  {"data_set", recipe.data_set},
                  {"architecture", recipe.architecture},
                  {"seed", config.seed},
                  {"config", config},
                  {"class_names", json::array()},
                  {"failed", json::array()},
                  {"parts", json::array()},
                  {"each_class", json::array()}};
  for (const Trial& trial : plan_trials(config)) {
    const auto record = folder.record(trial.id);
    if (record && !record->done) {
      results["failed"].push_back({{"id", trial.id}, {"reason", record->reason}});
    }
  }
  for (const AuditTask& task : plan_audits(config)) {
    const json file = json::parse(read_text_file(folder.audit(task.name)));
    json& list = results[task.each_class ? "each_class" : "parts"];
    if (list.empty() || list.back().at("hidden") != task.hidden ||
        list.back().at("forgotten") != json(task.forget)) {
      list.push_back({{"hidden", task.hidden},
                      {"forgotten", task.forget},
                      {"models", file.at("models")},
                      {"floor", nullptr},
                      {"methods", json::array()}});
    }
    json& part = list.back();
    if (task.method == "floor") {
      part["floor"] = file.at("audit");
      part["models"] = {{"second", file.at("models").at("seen")},
                        {"unseen", file.at("models").at("unseen")},
                        {"seen", 0}};
    } else {
      part["methods"].push_back(method_entry(task, file));
      if (task.method == "naive") part["models"]["seen"] = file.at("models").at("seen");
    }
    if (results["class_names"].empty() && file.at("audit").is_object()) {
      results["class_names"] = file.at("audit").value("class_names", json::array());
    }
  }
  results["tables"] = make_tables(results);
  return results;
}

std::string tables_as_text(const json& results) {
  std::string text;
  for (const json& table : results.at("tables")) {
    text += title_of(table) + "\n\n" + text_table(table).text() + "\n";
    for (const json& note : table.at("notes")) text += note.get<std::string>() + "\n";
    text += "\n";
  }
  return text;
}

std::string tables_as_markdown(const json& results) {
  std::string text;
  for (const json& table : results.at("tables")) {
    text += "### " + title_of(table) + "\n\n" + text_table(table).markdown() + "\n";
    for (const json& note : table.at("notes")) text += note.get<std::string>() + "\n";
    text += "\n";
  }
  return text;
}

}  // namespace oubli
