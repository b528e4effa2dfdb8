#include "oubli/experiment/result_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "oubli/base/json_fields.h"

namespace oubli {
namespace {

using nlohmann::json;
using Cell = ResultTable::Cell;
using Row = ResultTable::Row;

constexpr unsigned kMostDigits = 17;  // a double has no more

// Fixed digits; never "-0.000".
std::string fixed(double value, unsigned digits) {
  std::string text = fmt::format("{:.{}f}", value, std::min(digits, kMostDigits));
  if (text.starts_with('-') && text.find_first_not_of("-0.") == std::string::npos) text.erase(0, 1);
  return text;
}

std::string ours(const Cell& cell) {
  if (!cell.ours.value) return cell.ours.reason;
  std::string text = fixed(*cell.ours.value, cell.digits);
  if (cell.ours_sd) text += " ± " + fixed(*cell.ours_sd, cell.digits);
  return text;
}

std::string paper(const Cell& cell) {
  if (!cell.paper) return "";
  std::string text = fixed(*cell.paper, cell.paper_digits.value_or(cell.digits));
  if (cell.paper_sd) text += fmt::format(" ± {:.2f}", *cell.paper_sd);
  return text;
}

std::string interval(const Figure& figure, unsigned digits) {
  if (!figure.low || !figure.high) return "";
  return fixed(*figure.low, digits) + " to " + fixed(*figure.high, digits);
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

// "NN remaining normalization 256 all"
std::string place_of(const Row& row, const Cell& cell) {
  std::string place = cell.measure;
  if (!row.group.empty()) place += " " + row.group;
  for (const std::string& key : row.keys)
    if (key != "-") place += " " + key;
  return place;
}

template <typename Has>
bool any_cell(const ResultTable& table, const Has& has) {
  return std::ranges::any_of(table.rows,
                             [&](const Row& row) { return std::ranges::any_of(row.cells, has); });
}

}  // namespace

template <typename Fields>
void members(Fields& fields, Cell& cell) {
  fields("measure", cell.measure);
  fields.named("observer", cell.observer, value_named<Observer>);
  fields("digits", cell.digits);
  fields.unless_empty("ours", cell.ours.value);
  fields.unless_empty("low", cell.ours.low);
  fields.unless_empty("high", cell.ours.high);
  fields.unless_empty(cell.ours.value ? "interval_reason" : "reason", cell.ours.reason);
  fields.unless_empty("ours_sd", cell.ours_sd);
  fields.unless_empty("floor", cell.floor);
  fields.unless_empty("paper", cell.paper);
  fields.unless_empty("paper_sd", cell.paper_sd);
  fields.unless_empty("paper_digits", cell.paper_digits);
  fields.unless_empty("within", cell.within);
  fields.unless_empty("splits_mean", cell.over_splits.value);
  fields.unless_empty("splits_low", cell.over_splits.low);
  fields.unless_empty("splits_high", cell.over_splits.high);
  fields.unless_empty("splits_reason", cell.over_splits.reason);
}

template <typename Fields>
void members(Fields& fields, Row& row) {
  fields("group", row.group);
  fields("keys", row.keys);
  fields("cells", row.cells);
}

template <typename Fields>
void members(Fields& fields, ResultTable& table) {
  fields("title", table.title);
  fields.unless_empty("published", table.published);
  fields.unless_empty("number", table.number);
  fields.unless_empty("place", table.place);
  fields("notes", table.notes);
  fields("columns", table.columns);
  fields("keys", table.keys);
  fields("rows", table.rows);
}

std::string title_of(const ResultTable& table) {
  if (table.number.empty()) return table.title;
  return fmt::format("Table {} ({}): {}", table.number, table.place, table.title);
}

namespace {

std::optional<bool> lies_in(const Cell& cell, const Figure& ours, double rounding) {
  if (!cell.paper || !ours.low || !ours.high) return std::nullopt;
  return *ours.low - rounding <= *cell.paper && *cell.paper <= *ours.high + rounding;
}

double rounding_of(const Cell& cell) {
  return 0.5 * std::pow(10.0, -double(cell.paper_digits.value_or(cell.digits)));
}

// "11 of 12 published figures lie in WHAT; outside: ..."
template <typename Agrees>
std::string count_of(const ResultTable& table, const char* what, const Agrees& agreeing) {
  std::size_t compared = 0;
  std::vector<std::string> outside;
  for (const Row& row : table.rows)
    for (const Cell& cell : row.cells) {
      const std::optional<bool> inside = agreeing(cell);
      if (!inside) continue;
      ++compared;
      if (!*inside) outside.push_back(place_of(row, cell));
    }
  if (compared == 0) return "";
  return fmt::format("{} of {} published figures lie in {}{}.", compared - outside.size(), compared,
                     what,
                     outside.empty() ? "" : fmt::format("; outside: {}", fmt::join(outside, ", ")));
}

}  // namespace

std::optional<bool> agrees(const Cell& cell) {
  if (cell.paper && cell.ours.value && cell.within)
    return std::abs(*cell.paper - *cell.ours.value) <= *cell.within + rounding_of(cell);
  return lies_in(cell, cell.ours, rounding_of(cell));
}

std::optional<bool> agrees_over_splits(const Cell& cell) {
  return lies_in(cell, cell.over_splits, rounding_of(cell));
}

std::string agreement_of(const ResultTable& table) {
  const std::string both =
      count_of(table, "those that include the attacks' training networks", agrees_over_splits);
  return count_of(table, "our intervals", agrees) + (both.empty() ? "" : " " + both);
}

TextTable to_table(const ResultTable& table, bool name_observers) {
  using enum TextTable::Align;
  // An observer's own column stands beside the logits' if the table has logits at all.
  const bool observers = has_observers(table);
  const bool papers = any_cell(table, [](const Cell& c) { return c.paper.has_value(); });
  const bool intervals = any_cell(table, [](const Cell& c) { return c.ours.low.has_value(); });
  const bool splits =
      any_cell(table, [](const Cell& c) { return c.over_splits.value.has_value(); });
  const bool floors = any_cell(table, [](const Cell& c) { return c.floor.has_value(); });
  TextTable out({{"inputs"}});
  for (std::size_t i = 0; i < table.keys; ++i) out.columns.push_back({table.columns[i]});
  out.columns.push_back({"measure"});
  if (name_observers) out.columns.push_back({"observer"});
  if (papers) out.columns.push_back({"paper", right});
  out.columns.push_back({"ours", right});
  if (intervals) out.columns.push_back({"95 % interval", right});
  if (splits) {
    out.columns.push_back({"mean of splits", right});
    out.columns.push_back({"its 95 % interval", right});
  }
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
      if (intervals) line.push_back(interval(cell.ours, cell.digits));
      if (splits) {
        const Figure& mean = cell.over_splits;
        line.push_back(mean.value ? fixed(*mean.value, cell.digits) : "");
        line.push_back(interval(mean, cell.digits));
      }
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

std::vector<ResultTable> without_repeats(std::vector<ResultTable> tables) {
  using Place = std::tuple<std::string, std::vector<std::string>, std::string, Observer, double>;
  std::set<Place> shown;
  for (ResultTable& table : tables) {
    std::vector<Place> here;
    for (Row& row : table.rows)
      std::erase_if(row.cells, [&](const Cell& cell) {
        if (!cell.ours.value) return false;
        Place place(row.group, row.keys, cell.measure, cell.observer, *cell.ours.value);
        if (shown.contains(place)) return true;
        here.push_back(std::move(place));
        return false;
      });
    shown.insert(here.begin(), here.end());
    std::erase_if(table.rows, [](const Row& row) { return row.cells.empty(); });
  }
  std::erase_if(tables, [](const ResultTable& table) { return table.rows.empty(); });
  return tables;
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
  to_json<ResultTable>(out, table);
  if (table.published.empty()) out["published"] = nullptr;
}

void from_json(const json& in, ResultTable& table) {
  from_json<ResultTable>(in, table);
  if (table.keys > table.columns.size())
    fail(ErrorCode::bad_input, "keys: {} of {} columns", table.keys, table.columns.size());
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    if (table.rows[i].keys.size() != table.keys)
      fail(ErrorCode::bad_input, "rows[{}].keys: {} of them, wanted {}", i,
           table.rows[i].keys.size(), table.keys);
}

}  // namespace oubli
