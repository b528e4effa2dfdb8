// What the page shows of a methods.json (oubli/experiment/methods.h).
#include <fmt/format.h>

#include <algorithm>

#include "oubli/report/read_report.h"

namespace oubli::report {

void add_methods(ReportData& data, const MethodsResult& result) {
  if (data.title.empty()) data.title = result.experiment + ": methods";
  Methods methods;
  const MethodRow* least = nullptr;
  for (const MethodRow& row : result.methods)
    if (row.ten_answers.value &&
        (least == nullptr || *row.ten_answers.value < *least->ten_answers.value))
      least = &row;
  methods.sentence =
      least == nullptr
          ? "No method was measured."
          : fmt::format(
                "Of {} ways to forget, '{}' leaks least: from ten answers, unlearned and retrained "
                "networks are told apart {:.0f} times in 100, where guessing is right 50 times.",
                result.methods.size(), least->name,
                50 + 50 * std::max(0.0, *least->ten_answers.value));
  methods.note = explanation(result);
  methods.table = to_table(result);
  data.markdown +=
      fmt::format("### Every way to forget\n\n{}\n{}\n", methods.note, methods.table.markdown());
  methods.table.columns.insert(methods.table.columns.begin(), {"no.", TextTable::Align::right});
  for (std::size_t i = 0; i < methods.table.rows.size(); ++i)
    methods.table.rows[i].insert(methods.table.rows[i].begin(),
                                 i < result.methods.size() ? std::to_string(i + 1) : "");
  FrontierChart& chart = methods.chart;
  chart.title = "Leak against cost";
  chart.leak_axis = "advantage with ten answers (0 = guessing, 1 = certain); sees probabilities";
  chart.cost_axis = "sample-gradients, share of a retraining; numbers as in the table";
  chart.floor = result.floor.ten_answers;
  chart.description = fmt::format("Floor: {}. ", to_text(chart.floor, 2));
  for (std::size_t i = 0; i < result.methods.size(); ++i) {
    const MethodRow& row = result.methods[i];
    chart.points.push_back({std::to_string(i + 1), row.name, row.gradients, row.ten_answers});
    chart.description += fmt::format("{}, {:.1f} % of a retraining: {}. ", row.name,
                                     100 * row.gradients, to_text(row.ten_answers, 2));
  }
  mark_best(chart.points);
  data.methods = std::move(methods);
}

}  // namespace oubli::report
