#include "oubli/experiment/result_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "oubli/base/json_fields.h"

namespace oubli {
namespace {

using nlohmann::json;
using Cell = ResultTable::Cell;
using Row = ResultTable::Row;

constexpr unsigned kMostDigits = 17;  // a double has no more

// Fixed digits; never "-0.000".
std::string fixed(double value, unsigned digits) {
  std::string text = fmt::format("{:.{}f}", value, digits);
  if (text.starts_with('-') && text.find_first_not_of("-0.") == std::string::npos) text.erase(0, 1);
  return text;
}

std::string ours(const Cell& cell) {
  if (!cell.ours.value) return cell.ours.reason;
  std::string text = fixed(*cell.ours.value, cell.digits);
  if (cell.ours_sd) text += fmt::format(" ± {:.{}f}", *cell.ours_sd, cell.digits);
  return text;
}

std::string paper(const Cell& cell) {
  if (!cell.paper) return "";
  std::string text = fixed(*cell.paper, cell.paper_digits.value_or(cell.digits));
  if (cell.paper_sd) text += fmt::format(" ± {:.2f}", *cell.paper_sd);
  return text;
}

std::string interval(const Cell& cell) {
  if (!cell.ours.low || !cell.ours.high) return "";
  return fmt::format("{:.{}f} to {:.{}f}", *cell.ours.low, cell.digits, *cell.ours.high,
                     cell.digits);
}

// The cells of one row by what they measure for whom.
class Cells {
 public:
  explicit Cells(const Row& row) {
    for (const Cell& cell : row.cells) by_name_.try_emplace({cell.measure, cell.observer}, &cell);
  }
  // Ours of the same measure for another observer, where the table has one.
  [[nodiscard]] const Cell* find(const Cell& cell, Observer observer) const {
    const auto found = by_name_.find({cell.measure, observer});
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  std::map<std::pair<std::string_view, Observer>, const Cell*> by_name_;
};

// Whether some cell shows what the logits' own column has for other observers.
bool has_observers(const ResultTable& table) {
  return std::ranges::any_of(table.rows, [](const Row& row) {
    const Cells cells(row);
    return std::ranges::any_of(row.cells, [&](const Cell& cell) {
      return cell.observer == Observer::logits && cells.find(cell, Observer::label) != nullptr;
    });
  });
}

template <typename Has>
bool any_cell(const ResultTable& table, const Has& has) {
  return std::ranges::any_of(table.rows,
                             [&](const Row& row) { return std::ranges::any_of(row.cells, has); });
}

void to_json(json& out, const Cell& cell) {
  out = {{"measure", cell.measure}, {"observer", name_of(cell.observer)}, {"digits", cell.digits}};
  const auto add = [&](const char* key, const auto& value) {
    if (value) out[key] = *value;
  };
  add("ours", cell.ours.value);
  add("low", cell.ours.low);
  add("high", cell.ours.high);
  if (!cell.ours.value)
    out["reason"] = cell.ours.reason;
  else if (!cell.ours.low && !cell.ours.reason.empty())
    out["interval_reason"] = cell.ours.reason;
  add("ours_sd", cell.ours_sd);
  add("floor", cell.floor);
  add("paper", cell.paper);
  add("paper_sd", cell.paper_sd);
  add("paper_digits", cell.paper_digits);
}

}  // namespace

void from_json(const json& in, Cell& cell) {
  read_field(in, "measure", cell.measure);
  require_named(in, "observer", cell.observer, observer_of);
  read_field(in, "digits", cell.digits);
  cell.digits = std::min(cell.digits, kMostDigits);
  read_field(in, "ours", cell.ours.value);
  read_field(in, "low", cell.ours.low);
  read_field(in, "high", cell.ours.high);
  read_field(in, cell.ours.value ? "interval_reason" : "reason", cell.ours.reason);
  read_field(in, "ours_sd", cell.ours_sd);
  read_field(in, "floor", cell.floor);
  read_field(in, "paper", cell.paper);
  read_field(in, "paper_sd", cell.paper_sd);
  read_field(in, "paper_digits", cell.paper_digits);
  if (cell.paper_digits) cell.paper_digits = std::min(*cell.paper_digits, kMostDigits);
}

void from_json(const json& in, Row& row) {
  read_field(in, "group", row.group);
  read_field(in, "keys", row.keys);
  read_field(in, "cells", row.cells);
}

std::string title_of(const ResultTable& table) {
  if (table.number.empty()) return table.title;
  return fmt::format("Table {} ({}): {}", table.number, table.place, table.title);
}

TextTable to_table(const ResultTable& table, bool name_observers) {
  using enum TextTable::Align;
  // An observer's own column stands beside the logits' if the table has logits at all.
  const bool observers = has_observers(table);
  const bool papers = any_cell(table, [](const Cell& c) { return c.paper.has_value(); });
  const bool intervals = any_cell(table, [](const Cell& c) { return c.ours.low.has_value(); });
  const bool floors = any_cell(table, [](const Cell& c) { return c.floor.has_value(); });
  TextTable out({{"inputs"}});
  for (std::size_t i = 0; i < table.keys; ++i) out.columns.push_back({table.columns[i]});
  out.columns.push_back({"measure"});
  if (name_observers) out.columns.push_back({"observer"});
  if (papers) out.columns.push_back({"paper", right});
  out.columns.push_back({"ours", right});
  if (intervals) out.columns.push_back({"95 % interval", right});
  if (floors) out.columns.push_back({"floor", right});
  constexpr Observer kOthers[] = {Observer::probabilities, Observer::label};
  if (observers)
    for (const Observer other : kOthers)
      out.columns.push_back({std::string(name_of(other)), right});
  std::string group;
  for (const Row& row : table.rows) {
    if (row.group != group && !group.empty()) out.add_rule();
    group = row.group;
    const Cells cells(row);
    for (const Cell& cell : row.cells) {
      if (observers && cell.observer != Observer::logits) continue;
      std::vector<std::string> line = {group};
      line.insert(line.end(), row.keys.begin(), row.keys.end());
      line.push_back(cell.measure);
      if (name_observers) line.emplace_back(name_of(cell.observer));
      if (papers) line.push_back(paper(cell));
      line.push_back(ours(cell));
      if (intervals) line.push_back(interval(cell));
      if (floors) line.push_back(cell.floor ? fixed(*cell.floor, cell.digits) : "");
      if (observers)
        for (const Observer other : kOthers) {
          const Cell* found = cells.find(cell, other);
          line.push_back(found == nullptr ? "" : ours(*found));
        }
      out.add_row(std::move(line));
    }
  }
  return out;
}

std::string to_text(std::span<const ResultTable> tables) {
  std::string text;
  for (const ResultTable& table : tables) {
    text += title_of(table) + "\n\n" + to_table(table).text() + "\n";
    for (const std::string& note : table.notes) text += note + "\n";
    text += "\n";
  }
  return text;
}

std::string to_markdown(std::span<const ResultTable> tables) {
  std::string text;
  for (const ResultTable& table : tables) {
    text += "### " + title_of(table) + "\n\n" + to_table(table).markdown() + "\n";
    for (const std::string& note : table.notes) text += note + "\n";
    text += "\n";
  }
  return text;
}

void to_json(json& out, const ResultTable& table) {
  out = {{"title", table.title},     {"published", nullptr}, {"notes", table.notes},
         {"columns", table.columns}, {"keys", table.keys},   {"rows", json::array()}};
  if (!table.published.empty()) {
    out["published"] = table.published;
    out["number"] = table.number;
    out["place"] = table.place;
  }
  for (const Row& row : table.rows) {
    json cells = json::array();
    for (const Cell& cell : row.cells) to_json(cells.emplace_back(), cell);
    out["rows"].push_back({{"group", row.group}, {"keys", row.keys}, {"cells", std::move(cells)}});
  }
}

void from_json(const json& in, ResultTable& table) {
  read_field(in, "title", table.title);
  read_field(in, "published", table.published);
  read_field(in, "number", table.number);
  read_field(in, "place", table.place);
  read_field(in, "notes", table.notes);
  read_field(in, "columns", table.columns);
  read_field(in, "keys", table.keys);
  read_field(in, "rows", table.rows);
  if (table.keys > table.columns.size())
    fail(ErrorCode::bad_input, "keys: {} of {} columns", table.keys, table.columns.size());
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    if (table.rows[i].keys.size() != table.keys)
      fail(ErrorCode::bad_input, "rows[{}].keys: {} of them, wanted {}", i,
           table.rows[i].keys.size(), table.keys);
}

}  // namespace oubli
