// What the page shows of a run's results.json (oubli/experiment/results.h).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "oubli/experiment/results.h"
#include "oubli/experiment/tables.h"
#include "oubli/report/comparison.h"
#include "oubli/report/html.h"
#include "oubli/report/read_report.h"
#include "oubli/report/verdict.h"

namespace oubli::report {
namespace {

// Methods whose means are the paper's: from all test predictions. The others are in the tables.
bool is_main_variant(const TreatmentResult& result) {
  return !result.means || *result.means == MeansOf{kAllSamples, MeansSource::test};
}

// Why a method has no audit.
std::string why_not_measured(const TreatmentResult& result) {
  return result.reason.empty() ? "the file gives no reason" : result.reason;
}

// What to know of a part's figures, and which are not there at all.
std::vector<std::string> part_warnings(const PartResult& part) {
  std::vector<std::string> out;
  for (const TreatmentResult& result : part.treatments) {
    if (!is_main_variant(result)) continue;
    const std::string name = name_of(result.treatment);
    if (!result.audit) out.push_back(name + ": not measured: " + why_not_measured(result));
    if (result.audit)
      for (const std::string& warning : result.audit->warnings)
        out.push_back(fmt::format("{}: {}", name, warning));
    for (const FailedNetwork& network : result.failed)
      out.push_back(fmt::format("{}: network {} could not be filtered and is left out: {}", name,
                                network.id, network.reason));
  }
  if (part.floor)
    for (const std::string& warning : part.floor->warnings) out.push_back("floor: " + warning);
  return out;
}

Comparison comparison_of(PartResult part) {
  const std::vector<std::string> warnings = part_warnings(part);
  std::vector<AuditedMethod> methods;
  for (TreatmentResult& result : part.treatments)
    if (is_main_variant(result) && result.audit)
      methods.push_back({name_of(result.treatment), std::move(*result.audit)});
  Comparison out = compare(std::move(methods), part.floor);
  out.warnings = warnings;
  out.note = fmt::format(
      "{} networks trained on everything and then unlearned, {} retrained without the class, {} "
      "more retrained ones for the floor. Means of all test predictions.",
      part.seen, part.unseen, part.second.value_or(0));
  out.title = fmt::format("{} units", part.hidden);
  return out;
}

std::string join_keys(const std::vector<std::string>& keys) {
  std::string out;
  for (const std::string& key : keys)
    if (!key.empty() && key != "-") out += (out.empty() ? "" : ", ") + key;
  return out;
}

// Ours with its interval beside the paper's, a picture per group of inputs.
std::vector<DotChart> published_charts(const ResultTable& source) {
  std::vector<DotChart> out;
  for (const ResultTable::Row& row : source.rows) {
    for (const ResultTable::Cell& cell : row.cells) {
      // Advantages and distances; accuracies and losses are on other scales.
      if (!cell.paper || cell.observer != Observer::logits) continue;
      if (out.empty() || out.back().title != row.group) {
        DotChart chart;
        chart.title = row.group;
        chart.axis = "paper and ours, 95 % interval; observer sees logits";
        chart.description = "Observer sees logits. ";
        chart.floor_name = "floor: retrained against retrained";
        chart.high = 0.2;
        chart.series = {{"ours", 0}, {"paper", 5}};
        out.push_back(std::move(chart));
      }
      DotChart& chart = out.back();
      DotChart::Row line;
      line.label = join_keys(row.keys) + ": " + cell.measure;
      line.marks = {{0, cell.ours}, {1, Figure::of(*cell.paper)}};
      if (cell.floor) line.floor = Figure::of(*cell.floor);
      chart.description +=
          fmt::format("{}: ours {}, paper {:.3f}. ", line.label, to_text(cell.ours), *cell.paper);
      chart.high =
          std::max({chart.high, *cell.paper, cell.ours.high.value_or(cell.ours.value.value_or(0))});
      chart.rows.push_back(std::move(line));
    }
  }
  for (DotChart& chart : out) chart.high = std::min(1.0, std::ceil(chart.high * 10 - 1e-9) / 10);
  return out;
}

NamedTable published_table(const ResultTable& source) {
  NamedTable out{title_of(source), "", without_empty_columns(to_table(source, true))};
  for (const std::string& note : source.notes) out.note += note + " ";
  out.charts = published_charts(source);
  return out;
}

// What the strongest attack on one method reaches for an observer, or why that is not known.
Figure strongest_of(const TreatmentResult& result, Observer observer) {
  if (!result.audit) return Figure::missing(why_not_measured(result));
  const std::string name = name_of(result.treatment);
  Comparison alone;
  alone.methods.push_back({name, *result.audit});
  for (const ObserverVerdict& verdict : judge(alone, name))
    if (verdict.observer == observer)
      return verdict.worst ? verdict.worst->advantage : Figure::missing(verdict.reason);
  return Figure::missing("not measured for " + seen_by(observer));
}

// Of those measured, the observer who sees most.
Observer widest_observer(const std::vector<PartResult>& each_class) {
  for (const Observer observer : all_values<Observer>())
    for (const PartResult& part : each_class)
      for (const TreatmentResult& result : part.treatments)
        if (result.audit && find(result.audit->leaks.forgotten, observer) != nullptr)
          return observer;
  return Observer::logits;
}

// Forgetting each class in turn: the strongest attack.
DotChart each_class_chart(const Results& results) {
  DotChart chart;
  chart.title = "Each class forgotten in turn";
  const Observer observer = widest_observer(results.each_class);
  chart.axis = "advantage of the strongest attack, observer sees " + seen_by(observer);
  chart.description = fmt::format("Observer sees {}. ", seen_by(observer));
  chart.high = 0.2;
  for (const PartResult& part : results.each_class) {
    DotChart::Row row;
    for (const std::size_t label : part.forgotten)
      row.label += (row.label.empty() ? "" : ", ") + class_name(results.class_names, label);
    for (const TreatmentResult& result : part.treatments) {
      if (!is_main_variant(result)) continue;
      const std::string name = name_of(result.treatment);
      const Figure figure = strongest_of(result, observer);
      auto series = std::ranges::find(chart.series, name, &Series::name);
      if (series == chart.series.end()) series = chart.series.insert(series, series_of(name));
      if (figure.value)
        chart.high = std::max(chart.high, std::min(1.0, figure.high.value_or(*figure.value)));
      chart.description += fmt::format("{}, {}: {}. ", row.label, name, to_text(figure, 2));
      row.marks.push_back({static_cast<std::size_t>(series - chart.series.begin()), figure});
    }
    if (!row.marks.empty()) chart.rows.push_back(std::move(row));
  }
  chart.high = std::min(1.0, std::ceil(chart.high * 10 - 1e-9) / 10);
  return chart;
}

}  // namespace

void add_results(ReportData& data, Results results) {
  const std::size_t first = data.comparisons.size();
  data.markdown += to_markdown(make_tables(results));
  // The one with the most networks is judged.
  std::ranges::stable_sort(results.parts, std::ranges::greater{}, &PartResult::seen);
  for (PartResult& part : results.parts) data.comparisons.push_back(comparison_of(std::move(part)));
  if (data.title.empty()) {
    data.title = results.experiment;
    if (data.comparisons.size() > first)
      data.title += ": forgetting " + join(data.comparisons[first].forgotten);
  }
  if (data.comparisons.size() > first)
    if (DotChart chart = each_class_chart(results); !chart.rows.empty())
      data.comparisons[first].charts.push_back(std::move(chart));

  for (const ResultTable& source : results.tables)
    if (NamedTable named = published_table(source); !named.table.rows.empty())
      data.published.push_back(std::move(named));
  for (const FailedNetwork& network : results.failed)
    data.not_tested.push_back(fmt::format("Network {} is missing: {}", network.id, network.reason));
  data.not_tested.emplace_back(
      "Observers who hold the file itself: they can look at weights and features.");
  data.provenance.emplace_back("data set", results.data_set);
  data.provenance.emplace_back("seed", std::to_string(results.seed));
}

}  // namespace oubli::report
