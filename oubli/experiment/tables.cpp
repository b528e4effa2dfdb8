#include "oubli/experiment/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "oubli/experiment/published.h"

namespace oubli {
namespace {

using nlohmann::json;

struct AttackColumn {
  const char* measure;  // the paper's abbreviation
  const char* attack;   // name_of(Attack)
};
constexpr std::array kPaperAttacks = {AttackColumn{"NN", "nearest-neighbours"},
                                      AttackColumn{"RF", "forest"}, AttackColumn{"AB", "adaboost"}};
constexpr std::array kAllColumns = {kPaperAttacks[0], kPaperAttacks[1], kPaperAttacks[2],
                                    AttackColumn{"LR", "logistic"}};
constexpr std::array kObservers = {"logits", "probabilities", "label"};

const char* const kSoftmaxNote =
    "For observers of probabilities and labels normalization is naive deletion: it adds the same "
    "number to all logits of an input.";
const char* const kFloorNote = "floor: a second batch of retrained networks against the first.";

// Members that may be absent or null.
const json& at(const json& object, const char* key) {
  static const json null = nullptr;
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

// One method of one part: what a row of a table is about.
struct Line {
  std::string method, samples, from;
  std::size_t hidden = 0;
  const json* audit = nullptr;  // never null; may be json null
  const json* floor = nullptr;
};

std::vector<Line> lines_of(const json& part) {
  std::vector<Line> lines;
  for (const json& method : part.at("methods")) {
    lines.push_back({.method = method.at("method"),
                     .samples = method.value("samples", ""),
                     .from = method.value("means_from", ""),
                     .hidden = part.at("hidden"),
                     .audit = &method.at("audit"),
                     .floor = &part.at("floor")});
  }
  return lines;
}

// "forgotten" or "retained" of an audit for one observer.
const json& leak(const json& audit, const char* group, std::string_view observer) {
  for (const json& entry : at(at(audit, "leaks"), group)) {
    if (entry.value("observer", "") == observer) return entry;
  }
  return at(json(), "");
}

const json& advantage(const json& audit, const char* group, std::string_view observer,
                      std::string_view attack) {
  for (const json& entry : at(leak(audit, group, observer), "attacks")) {
    if (entry.value("attack", "") == attack) return at(entry, "advantage");
  }
  return at(json(), "");
}

const json& quality(const json& audit, std::string_view population) {
  for (const json& entry : at(audit, "quality")) {
    if (entry.value("population", "") == population) return entry;
  }
  return at(json(), "");
}

// A Figure of the audit, {"value", "low", "high"} or reasons for what is missing, as a cell.
json figure_cell(const json& figure, const json& floor, int digits) {
  json cell = {{"digits", digits}};
  if (at(figure, "value").is_number()) {
    cell["ours"] = figure.at("value");
    if (at(figure, "low").is_number()) cell["low"] = figure.at("low");
    if (at(figure, "high").is_number()) cell["high"] = figure.at("high");
    if (figure.contains("interval_reason")) cell["interval_reason"] = figure.at("interval_reason");
  } else {
    cell["reason"] = figure.is_object() ? figure.value("reason", "not measured") : "not measured";
  }
  if (at(floor, "value").is_number()) cell["floor"] = floor.at("value");
  return cell;
}

// A MeanStd of the audit, scaled, as a cell.
json mean_cell(const json& mean_std, double scale, int digits, const std::string& reason) {
  json cell = {{"digits", digits}};
  if (at(mean_std, "mean").is_number()) {
    cell["ours"] = scale * mean_std.at("mean").get<double>();
    cell["ours_sd"] = scale * mean_std.at("std").get<double>();
  } else {
    cell["reason"] = reason.empty() ? "not measured" : reason;
  }
  return cell;
}

void name_cell(json& cell, const char* measure, const char* observer) {
  cell["measure"] = measure;
  cell["observer"] = observer;
}

void add_paper(json& cell, const PublishedRow* row, const std::string& value) {
  if (row == nullptr || !row->values.contains(value)) return;
  cell["paper"] = row->values.at(value);
  // As many digits as the paper prints.
  const bool percent =
      value == "accuracy" || value == "all" || value == "unlearned" || value == "correct";
  cell["paper_digits"] = percent ? 1 : value == "loss" ? 2 : 3;
  if (row->values.contains(value + " sd")) cell["paper_sd"] = row->values.at(value + " sd");
}

json keys_of(const Line& line) {
  const std::string samples = line.samples.empty()   ? "-"
                              : line.from == "train" ? line.samples + ", training data"
                                                     : line.samples;
  return json::array({line.method, std::to_string(line.hidden), samples});
}

json new_table(std::string title, std::vector<std::string> columns, json notes) {
  return {{"title", std::move(title)},     {"published", nullptr},
          {"columns", std::move(columns)}, {"keys", 3},
          {"notes", std::move(notes)},     {"rows", json::array()}};
}

template <typename Attacks>
std::vector<std::string> advantage_columns(const Attacks& attacks) {
  std::vector<std::string> columns = {"method", "p", "s"};
  for (const char* observer : kObservers) {
    for (const AttackColumn& column : attacks) {
      columns.push_back(std::string(observer) == "logits"
                            ? column.measure
                            : fmt::format("{}, {}", column.measure, observer));
    }
  }
  return columns;
}

template <typename Attacks>
json advantage_row(const Line& line, const std::string& group, const PublishedRow* paper,
                   const Attacks& attacks) {
  const char* key = group == "unlearned" ? "forgotten" : "retained";
  json cells = json::array();
  for (const char* observer : kObservers) {
    for (const AttackColumn& column : attacks) {
      json cell = figure_cell(advantage(*line.audit, key, observer, column.attack),
                              advantage(*line.floor, key, observer, column.attack), 3);
      name_cell(cell, column.measure, observer);
      if (std::string(observer) == "logits") add_paper(cell, paper, column.measure);
      cells.push_back(std::move(cell));
    }
  }
  return {{"group", group}, {"keys", keys_of(line)}, {"cells", cells}};
}

json ks_row(const Line& line, const std::string& group, const PublishedRow* paper) {
  const char* key = group == "unlearned" ? "forgotten" : "retained";
  const json& ours = leak(*line.audit, key, "logits");
  const json& floor = leak(*line.floor, key, "logits");
  json cells = json::array();
  for (const auto& [measure, field] :
       {std::pair{"KS", "ks"}, std::pair{"KS along ones", "ks_ones"}}) {
    json cell = figure_cell(at(ours, field), at(floor, field), 3);
    name_cell(cell, measure, "logits");
    if (std::string(field) == "ks") add_paper(cell, paper, "ks");
    cells.push_back(std::move(cell));
  }
  return {{"group", group}, {"keys", keys_of(line)}, {"cells", cells}};
}

// `population`: which networks of the audit the row is about: before, unseen (retrained) or seen.
json accuracy_row(const Line& line, const char* population, const PublishedRow* paper) {
  const json& entry = quality(*line.audit, population);
  const std::string reason = entry.is_object() ? entry.value("reason", "") : "";
  json accuracy = mean_cell(at(entry, "accuracy"), 100, 2, reason);
  name_cell(accuracy, "accuracy", "label");
  add_paper(accuracy, paper, "accuracy");
  json loss = mean_cell(at(entry, "loss"), 1, 3, reason);
  name_cell(loss, "loss", "probabilities");
  add_paper(loss, paper, "loss");
  return {{"group", ""}, {"keys", keys_of(line)}, {"cells", {accuracy, loss}}};
}

json flips_row(const Line& line, const PublishedRow* paper) {
  const json& flips = at(*line.audit, "flips");
  const std::string reason = flips.is_object() ? flips.value("reason", "") : "";
  json cells = json::array();
  const std::array<std::array<const char*, 2>, 3> fields = {
      {{"all", "all"}, {"unlearned", "forgotten"}, {"correct", "correct"}}};
  for (const auto& [measure, field] : fields) {
    json cell = line.method == "naive" ? json{{"digits", 2}, {"reason", "the reference"}}
                                       : mean_cell(at(flips, field), 100, 2, reason);
    name_cell(cell, measure, "label");
    add_paper(cell, paper, measure);
    cells.push_back(std::move(cell));
  }
  json accuracy = mean_cell(at(quality(*line.audit, "seen"), "accuracy"), 100, 2, "");
  name_cell(accuracy, "accuracy", "label");
  add_paper(accuracy, paper, "accuracy");
  cells.push_back(std::move(accuracy));
  return {{"group", ""}, {"keys", keys_of(line)}, {"cells", cells}};
}

const std::vector<std::string> kKsColumns = {"method", "p", "s", "KS", "KS along ones"};
const std::vector<std::string> kAccuracyColumns = {"method", "p", "s", "accuracy", "loss"};
const std::vector<std::string> kFlipColumns = {"method",    "p",       "s",       "all",
                                               "unlearned", "correct", "accuracy"};

// Rows of the paper that are about networks, not about a method.
const char* population_of(const std::string& method) {
  return method == "before" ? "before" : method == "retrained" ? "unseen" : "seen";
}

class Tables {
 public:
  explicit Tables(const json& results) : experiment_(results.at("experiment")) {
    for (const json& part : results.at("parts")) {
      for (Line& line : lines_of(part)) lines_.push_back(std::move(line));
      floors_.push_back({.method = "baseline",
                         .samples = "",
                         .from = "",
                         .hidden = part.at("hidden"),
                         .audit = &part.at("floor"),
                         .floor = &part.at("floor")});
    }
  }

  // A table of the paper; null if this experiment has no part in it.
  [[nodiscard]] json published(const PublishedTable& source) const {
    json table = new_table(source.title, columns_of(source.kind), json::array());
    table["published"] = source.label;
    table["number"] = source.number;
    table["place"] = source.place;
    if (!source.note.empty()) table["notes"].push_back("Paper: " + source.note + ".");
    std::set<std::size_t> not_run;
    for (const PublishedRow& row : source.rows) {
      if (row.experiment != experiment_) continue;
      if (const Line* line = find(row)) {
        table["rows"].push_back(row_of(source.kind, *line, row));
      } else {
        not_run.insert(row.hidden);
      }
    }
    if (table["rows"].empty()) return nullptr;
    for (const std::size_t hidden : not_run) {
      table["notes"].push_back(fmt::format("Not all rows with p = {} were run.", hidden));
    }
    if (source.kind == "advantage" || source.kind == "ks") table["notes"].push_back(kFloorNote);
    if (source.kind == "advantage") table["notes"].push_back(kSoftmaxNote);
    return table;
  }

  void add_own(json& tables) const {
    json all = new_table("Every method, attack and observer", advantage_columns(kAllColumns),
                         json::array({kFloorNote, kSoftmaxNote,
                                      "LR: logistic regression, which the paper does not have."}));
    json ks = new_table("KS statistic of every method", kKsColumns, json::array({kFloorNote}));
    json accuracy = new_table("Accuracy and loss on retained classes", kAccuracyColumns,
                              json::array({"Mean and standard deviation over networks."}));
    json flips =
        new_table("Labels changed against naive deletion, in percent", kFlipColumns, json::array());
    for (const std::string group : {"unlearned", "remaining"}) {
      for (const Line& line : lines_) {
        all["rows"].push_back(advantage_row(line, group, nullptr, kAllColumns));
        ks["rows"].push_back(ks_row(line, group, nullptr));
      }
      for (const Line& line : floors_) ks["rows"].push_back(ks_row(line, group, nullptr));
    }
    for (const Line& line : lines_) {
      if (line.method == "naive") {
        for (const char* method : {"before", "retrained"}) {
          Line other = line;
          other.method = method;
          accuracy["rows"].push_back(accuracy_row(other, population_of(method), nullptr));
        }
      }
      accuracy["rows"].push_back(accuracy_row(line, "seen", nullptr));
      flips["rows"].push_back(flips_row(line, nullptr));
    }
    for (json* table : {&all, &ks, &accuracy, &flips}) {
      if (!table->at("rows").empty()) tables.push_back(std::move(*table));
    }
  }

 private:
  static std::vector<std::string> columns_of(const std::string& kind) {
    if (kind == "advantage") return advantage_columns(kPaperAttacks);
    if (kind == "ks") return kKsColumns;
    return kind == "accuracy" ? kAccuracyColumns : kFlipColumns;
  }

  static json row_of(const std::string& kind, const Line& line, const PublishedRow& row) {
    if (kind == "advantage") return advantage_row(line, row.group, &row, kPaperAttacks);
    if (kind == "ks") return ks_row(line, row.group, &row);
    Line named = line;
    named.method = row.method;
    if (kind == "accuracy") return accuracy_row(named, population_of(row.method), &row);
    return flips_row(named, &row);
  }

  // Ours of the paper's row. Networks as such are those of naive deletion's audit.
  [[nodiscard]] const Line* find(const PublishedRow& row) const {
    const bool networks = row.method == "before" || row.method == "retrained";
    const auto& from = row.method == "baseline" ? floors_ : lines_;
    const std::string method = networks ? "naive" : row.method;
    const auto found = std::ranges::find_if(from, [&](const Line& line) {
      return line.method == method && line.hidden == row.hidden && line.samples == row.samples &&
             line.from != "train";
    });
    return found == from.end() ? nullptr : &*found;
  }

  std::string experiment_;
  std::vector<Line> lines_, floors_;
};

json each_class_table(const json& results) {
  json table = new_table("Each class forgotten in turn, inputs of that class",
                         {"class", "method", "models", "NN", "RF", "AB", "LR"},
                         json::array({"Logits observed."}));
  for (const json& entry : results.at("each_class")) {
    const std::size_t label = entry.at("forgotten").at(0);
    for (const json& method : entry.at("methods")) {
      json cells = json::array();
      for (const AttackColumn& column : kAllColumns) {
        json cell = figure_cell(advantage(method.at("audit"), "forgotten", "logits", column.attack),
                                nullptr, 3);
        name_cell(cell, column.measure, "logits");
        cells.push_back(std::move(cell));
      }
      table["rows"].push_back({{"group", "unlearned"},
                               {"keys",
                                {results.at("class_names").at(label), method.at("method"),
                                 std::to_string(entry.at("models").at("seen").get<std::size_t>())}},
                               {"cells", cells}});
    }
  }
  return table;
}

}  // namespace

json make_tables(const json& results) {
  json tables = json::array();
  const Tables maker(results);
  for (const PublishedTable& source : published().tables) {
    if (json table = maker.published(source); !table.is_null()) tables.push_back(std::move(table));
  }
  maker.add_own(tables);
  if (!results.at("each_class").empty()) tables.push_back(each_class_table(results));
  return tables;
}

}  // namespace oubli
