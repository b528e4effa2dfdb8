#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oubli/audit/figure.h"
#include "oubli/audit/observer.h"
#include "oubli/base/text_table.h"

namespace oubli {

// A table of the paper with ours beside it, or of ours alone; as text, as Markdown and on the page.
struct ResultTable {
  struct Cell {
    std::string measure;  // "NN", "accuracy"
    Observer observer = Observer::logits;
    Figure ours = {};
    std::optional<double> ours_sd = {};  // over networks
    std::optional<double> floor = {};
    std::optional<double> paper = {}, paper_sd = {};
    // How far a published mean over networks may lie from ours: the 95 % interval of the difference
    // of two uncertain means. Without it our interval alone decides.
    std::optional<double> within = {};
    Figure over_splits = {};  // the mean over several splits of the networks (resplit.h)
    unsigned digits = 3;      // after the point
    std::optional<unsigned> paper_digits = {};  // as many as the paper prints; else `digits`
  };
  struct Row {
    std::string group;              // "unlearned", "remaining", or ""
    std::vector<std::string> keys;  // what the row is about: method, p, s
    std::vector<Cell> cells;
  };
  std::string title;
  std::string published, number, place;  // of the paper's: "tab:MLP50", "I", "main text"
  std::vector<std::string> notes;
  std::vector<std::string> columns;  // first the keys, then one per cell
  std::size_t keys = 3;
  std::vector<Row> rows;
};

// "Table I (main text): ..."
[[nodiscard]] std::string title_of(const ResultTable& table);

// Whether the paper's figure lies in our interval; none where there is nothing to compare. What the
// paper rounds away does not count against it.
[[nodiscard]] std::optional<bool> agrees(const ResultTable::Cell& cell);
// The same of the interval over splits, which includes the variation from training networks.
[[nodiscard]] std::optional<bool> agrees_over_splits(const ResultTable::Cell& cell);

// How many figures of the paper lie in our intervals, and which do not, in sentences; "" where
// there are none to compare.
[[nodiscard]] std::string agreement_of(const ResultTable& table);

// One line per measure: paper, ours, interval, floor, and what the other observers get. Columns
// that would be empty are left out. `name_observers`: with a column for what the observer sees.
[[nodiscard]] TextTable to_table(const ResultTable& table, bool name_observers = false);

// The same tables without figures that stand in a table above: for people who read them in order.
[[nodiscard]] std::vector<ResultTable> without_repeats(std::vector<ResultTable> tables);

// All of them, with titles and notes.
[[nodiscard]] std::string to_text(std::span<const ResultTable> tables);
[[nodiscard]] std::string to_markdown(std::span<const ResultTable> tables);

// from_json: Error{bad_input} that begins with the place.
void to_json(nlohmann::json& json, const ResultTable& table);
void from_json(const nlohmann::json& json, ResultTable& table);

}  // namespace oubli
