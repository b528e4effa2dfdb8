// What the page shows of an inversion.json (oubli/inversion/study.h).
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/report/json_fields.h"
#include "oubli/report/read_report.h"

namespace oubli::report {

using nlohmann::json;

namespace {

// The attack needs the logits and their gradients.
constexpr const char* kObserver = "The observer holds the model. ";

// Rows are networks, points what the attacker went for: is the person in the picture?
DotChart likeness_chart(const json& document) {
  DotChart chart;
  chart.title = "Is the class in the picture?";
  chart.description = kObserver;
  chart.axis = "correlation with the class's own; observer holds the model";
  chart.low = -1;
  chart.series = {{"forgotten, guessed logit", 1}, {"forgotten, ghost logit", 2}, {"retained", 0}};
  for (const json& entry : list(document, "likeness")) {
    const std::string state = text(entry, "state");
    if (chart.rows.empty() || chart.rows.back().label != state)
      chart.rows.push_back({.label = state, .marks = {}, .floor = {}});
    std::string target = text(entry, "target");
    if (target == "every class") target = "retained";  // before deletion
    const Measured own = mean_std(entry.at("own"));
    for (std::size_t s = 0; s < chart.series.size(); ++s)
      if (chart.series[s].name == target) chart.rows.back().marks.push_back({s, own});
    chart.description += fmt::format("{}, {}: {}. ", state, target, to_text(own, 2));
  }
  return chart;
}

// How often the forgotten class is recognised, by the better of the two attacks, of 100.
std::string inversion_sentence(const json& document) {
  std::vector<std::pair<std::string, double>> found;  // by state, in order
  for (const json& entry : list(document, "likeness")) {
    if (!text(entry, "target").starts_with("forgotten")) continue;
    const std::string state = text(entry, "state");
    const double share = 100 * entry.at("recognised").at("mean").get<double>();
    if (found.empty() || found.back().first != state) found.emplace_back(state, share);
    found.back().second = std::max(found.back().second, share);
  }
  if (found.empty()) return "";
  std::vector<std::string> parts;
  parts.reserve(found.size());
  for (const auto& [state, share] : found)
    parts.push_back(state == "retrained"
                        ? fmt::format("{:.3g} from networks that never saw it", share)
                        : fmt::format("{:.3g} after {}", share, state));
  return fmt::format(
      "Against somebody who holds the model and reconstructs pictures from it: of 100 pictures of "
      "the forgotten "
      "class, the class is recognised in {} (guessing: {:.3g}). Nothing else was tried.",
      fmt::join(parts, ", "), 100.0 / static_cast<double>(list(document, "class_names").size()));
}

}  // namespace

void add_inversion(ReportData& data, const json& document, const std::filesystem::path& folder) {
  Inversion out;
  out.sentence = inversion_sentence(document);
  out.caption = kObserver + text(document, "caption");
  for (const json& sheet : list(document, "sheets")) {
    const std::filesystem::path name = text(sheet, "file");
    // A name, not a path: the document must not make us embed other files.
    if (name.empty() || name != name.filename() || name == ".." || name == ".")
      fail(ErrorCode::bad_input, "{}: picture '{}' is not the name of a file beside it",
           (folder / "inversion.json").string(), name.string());
    data.files.push_back(folder / name);
    out.sheets.push_back(
        {text(sheet, "title"), text(sheet, "description"), read_text_file(folder / name)});
  }
  for (const json& source : list(document, "tables")) {
    NamedTable named{text(source, "title"), kObserver + text(source, "note"), {}};
    for (const json& column : list(source, "columns"))
      named.table.columns.push_back({text(column, "title"), column.value("number", false)});
    for (const json& row : list(source, "rows")) {
      named.table.rows.push_back(row.get<std::vector<std::string>>());
      if (named.table.rows.back().size() != named.table.columns.size())
        fail(ErrorCode::bad_input, "inversion.json: a row of '{}' has {} cells, not {}",
             named.title, named.table.rows.back().size(), named.table.columns.size());
    }
    if (out.tables.empty())
      if (DotChart chart = likeness_chart(document); !chart.rows.empty())
        named.charts.push_back(std::move(chart));
    out.tables.push_back(std::move(named));
  }
  if (data.title.empty()) data.title = "Model inversion: " + text(document, "data_set");
  data.inversion = std::move(out);
}

}  // namespace oubli::report
