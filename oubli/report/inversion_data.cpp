// What the page shows of an inversion.json (oubli/inversion/study.h).
#include <fmt/ranges.h>

#include <algorithm>

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
    MeanStd spread;
    require_field(entry, "own", spread);
    const Figure own = figure_of(spread);
    for (std::size_t s = 0; s < chart.series.size(); ++s)
      if (chart.series[s].name == target) chart.rows.back().marks.push_back({s, own});
    chart.description += fmt::format("{}, {}: {}. ", state, target, to_text(own, 2));
  }
  return chart;
}

// "1 network", "4 networks"
std::string counted(std::size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// In how many pictures the forgotten class is recognised, by the better of the two attacks.
std::string inversion_sentence(const json& document) {
  struct Found {
    std::string state;
    double share = 0;
    std::size_t networks = 0;
    std::optional<std::size_t> pictures;  // of all networks; older files do not say
  };
  std::vector<Found> found;  // by state, in order
  for (const json& entry : list(document, "likeness")) {
    if (!text(entry, "target").starts_with("forgotten")) continue;
    MeanStd recognised;
    require_field(entry, "recognised", recognised);
    Found next{text(entry, "state"), recognised.mean, field<std::size_t>(entry, "networks"),
               field<std::optional<std::size_t>>(entry, "pictures")};
    if (found.empty() || found.back().state != next.state)
      found.push_back(std::move(next));
    else if (next.share > found.back().share)
      found.back() = std::move(next);
  }
  if (found.empty()) return "";
  std::vector<std::string> parts;
  for (const auto& [state, share, networks, pictures] : found) {
    const std::string in =
        pictures ? fmt::format("in {:.0f} of {}", share * static_cast<double>(*pictures),
                               counted(*pictures, "picture"))
                 : fmt::format("in {:.3g} % of the pictures", 100 * share);
    parts.push_back(
        state == "retrained"
            ? fmt::format("{} of {} that never saw it", in, counted(networks, "network"))
            : fmt::format("{} of {} after {}", in, counted(networks, "network"), state));
  }
  return fmt::format(
      "Against somebody who holds the model and reconstructs pictures from it: the forgotten class "
      "is recognised {} (guessing: 1 in {}). Nothing else was tried.",
      fmt::join(parts, ", "), list(document, "class_names").size());
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
      fail(ErrorCode::bad_input, "sheets: picture '{}' is not the name of a file beside it",
           name.string());
    data.files.push_back(folder / name);
    out.sheets.push_back(
        {text(sheet, "title"), text(sheet, "description"), read_text_file(folder / name)});
  }
  for (const json& source : list(document, "tables")) {
    NamedTable named{text(source, "title"), kObserver + text(source, "note"), {}};
    for (const json& column : list(source, "columns"))
      named.table.columns.push_back({text(column, "title"), field<bool>(column, "number")
                                                                ? TextTable::Align::right
                                                                : TextTable::Align::left});
    for (const json& row : list(source, "rows")) {
      read_value(row, named.table.rows.emplace_back());
      if (named.table.rows.back().size() != named.table.columns.size())
        fail(ErrorCode::bad_input, "tables: a row of '{}' has {} cells, not {}", named.title,
             named.table.rows.back().size(), named.table.columns.size());
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
