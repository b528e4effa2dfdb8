#include "oubli/report/page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "oubli/base/error.h"
#include "oubli/base/version.h"
#include "oubli/report/comparison.h"
#include "oubli/report/html.h"
#include "oubli/report/sections.h"
#include "oubli/report/verdict.h"

namespace oubli::report {
namespace {

constexpr std::string_view kNumbers = "Numbers behind this picture";
constexpr const char* kInputs[] = {"On inputs of the forgotten class",
                                   "On inputs of the retained classes (mean over classes)"};

std::string paragraph(std::string_view text, std::string_view css = "") {
  if (text.empty()) return "";
  return css.empty() ? fmt::format("<p>{}</p>\n", escape(text))
                     : fmt::format("<p class=\"{}\">{}</p>\n", css, escape(text));
}

std::string figure(const std::string& picture, const TextTable& numbers,
                   const std::vector<std::string>& reasons = {}) {
  std::string out = "<figure>" + picture + html_details(kNumbers, numbers);
  for (const std::string& reason : reasons) out += paragraph(reason, "note");
  return out + "</figure>\n";
}

std::string figure(const DotChart& picture) {
  return figure(svg(picture), table(picture), reasons(picture));
}

std::string warning_list(const std::vector<std::string>& warnings) {
  if (warnings.empty()) return "";
  std::string out = "<ul class=\"warnings\">\n";
  for (const std::string& warning : warnings)
    out +=
        fmt::format("<li>Warning: {}{}</li>\n", escape(warning), warning.ends_with('.') ? "" : ".");
  return out + "</ul>\n";
}

// Long tables are closed until asked for.
std::string named_table(const NamedTable& named) {
  constexpr std::size_t kLong = 12;
  std::string out =
      fmt::format("<h3>{}</h3>\n{}", escape(named.title), paragraph(named.note, "note"));
  if (!named.charts.empty()) {
    out += "<div class=\"panels\">\n";
    for (const DotChart& picture : named.charts) out += figure(picture);
    out += "</div>\n";
  }
  const std::size_t rows = named.table.rows.size();
  out += rows > kLong || !named.charts.empty()
             ? html_details(fmt::format("The whole table, {} rows", rows), named.table)
             : html(named.table);
  for (const std::string& reason : named.reasons) out += paragraph(reason, "note");
  return out;
}

std::string unordered_list(const std::vector<std::string>& items) {
  std::string out = "<ul>\n";
  for (const std::string& item : items) out += "<li>" + escape(item) + "</li>\n";
  return out + "</ul>\n";
}

std::string definitions(const std::vector<std::pair<std::string, std::string>>& facts,
                        std::string_view css = "") {
  std::string out = "<dl>\n";
  for (const auto& [name, value] : facts)
    out += fmt::format("<dt>{}</dt><dd{}>{}</dd>\n", escape(name),
                       css.empty() ? "" : fmt::format(" class=\"{}\"", css), escape(value));
  return out + "</dl>\n";
}

// The ends of a common scale: the largest value or interval's end, rounded up to a tenth; and 0, or
// below if a value is.
struct CommonScale {
  double low = 0;
  double high;

  void add(const Figure& figure) {
    if (!figure.value) return;
    low = std::min(low, *figure.value);
    high = std::max({high, *figure.value, figure.high.value_or(0)});
  }
  [[nodiscard]] double bottom() const {
    return low > -0.02 ? 0 : std::max(-1.0, std::floor(low * 10 + 1e-9) / 10);
  }
  [[nodiscard]] double top() const { return std::min(1.0, std::ceil(high * 10 - 1e-9) / 10); }
};

// Of the forgotten or of the retained classes.
const std::vector<ObserverLeak>& group_of(const Leaks& leaks, bool forgotten) {
  return forgotten ? leaks.forgotten : leaks.retained;
}

const ObserverLeak* floor_of(const Comparison& comparison, bool forgotten, Observer observer) {
  if (!comparison.floor) return nullptr;
  return find(group_of(*comparison.floor, forgotten), observer);
}

// A figure of `Of`, or why it is missing.
template <typename Of>
Figure figure_at(const Of* of, Figure Of::*figure, const std::string& otherwise) {
  return of != nullptr ? of->*figure : Figure::missing(otherwise);
}

bool is_there(const Figure& figure) { return figure.value || !figure.reason.empty(); }

constexpr const char* kFloorName = "floor: retrained against retrained";

std::string answer(const ReportData& data) {
  std::string out =
      "<section class=\"answer\" id=\"answer\"><h2>Can I hand this model over, and against "
      "whom?</h2>\n";
  if (!data.comparisons.empty() && data.comparisons.front().measured()) {
    const Comparison& comparison = data.comparisons.front();
    const std::string method = judged_method(comparison, data.method);
    const auto verdicts = judge(comparison, method);
    const VerdictChart picture = chart(verdicts, method);
    out += paragraph(sentence(verdicts, method), "sentence");
    out += figure(svg(picture, true) + svg(picture, false), table(picture), reasons(picture));
    // In plain words, for who sees most.
    for (const std::string& line : plain_words(verdicts)) out += paragraph(line, "words");
    out += warning_list(comparison.warnings);
    std::string note = fmt::format(
        "The attacker is given the model's output on inputs of the forgotten class ({}) and must "
        "say whether the model was made by {} or retrained without that class. The strongest "
        "attack tried is shown; its interval holds for all attacks at once with probability 95 %, "
        "where there is one, and its upper end is the largest of any. Not told apart: the interval "
        "reaches {}. Undecided: it also reaches {:.0f} right answers in 100 above; more networks "
        "would tell. Faintly: above that by fewer than {:.0f} right answers in 100.",
        join(comparison.forgotten), method,
        picture.floor_name.empty()
            ? "50, which is guessing; no floor was measured, and retrained models may be told from "
              "other retrained models, too"
            : "the grey floor, where retrained models are told from other retrained models",
        50 * kFaint, 50 * kFaint);
    out += paragraph(note, "note");
  } else if (data.receipt) {
    out += paragraph(sentence(*data.receipt), "sentence");
    const DotChart picture = chart(*data.receipt);
    if (!picture.rows.empty()) out += figure(picture);
  } else if (data.inversion && !data.inversion->sentence.empty()) {
    out += paragraph(data.inversion->sentence, "sentence");
    for (const NamedTable& named : data.inversion->tables)
      for (const DotChart& picture : named.charts) out += figure(picture);
  } else if (data.methods) {
    out += paragraph(data.methods->sentence, "sentence");
  } else {
    out += paragraph("Nothing was measured that could answer this.", "sentence");
    if (!data.comparisons.empty()) out += warning_list(data.comparisons.front().warnings);
  }
  return out + "</section>\n";
}

// Every attack, and how many answers it gets, that some method was audited by.
std::vector<std::pair<Attack, std::size_t>> attacks_of(const Comparison& comparison, bool forgotten,
                                                       Observer observer) {
  std::vector<std::pair<Attack, std::size_t>> out;
  for (const auto& [name, audit] : comparison.methods)
    if (const ObserverLeak* leak = find(group_of(audit.leaks, forgotten), observer))
      for (const AttackLeak& attack : leak->attacks)
        if (const std::pair row(attack.attack, attack.answers);
            std::ranges::find(out, row) == out.end())
          out.push_back(row);
  std::ranges::stable_sort(out, {}, [](const auto& row) { return row.first; });
  return out;
}

DotChart empty_chart(const Comparison& comparison, bool forgotten, Observer observer,
                     std::string axis) {
  DotChart picture;
  picture.title = "Observer sees " + seen_by(observer);
  picture.description = kInputs[forgotten ? 0 : 1] + std::string(". ");
  picture.axis = std::move(axis);
  for (const auto& [name, audit] : comparison.methods) picture.series.push_back(series_of(name));
  return picture;
}

// The figure of each method that has it, as a point, and all of them in words.
template <typename FigureOf>
std::string add_marks(const Comparison& comparison, DotChart::Row& row, const FigureOf& figure_of) {
  std::string words;
  for (std::size_t i = 0; i < comparison.methods.size(); ++i) {
    const auto& [name, audit] = comparison.methods[i];
    const Figure* const figure = figure_of(audit);
    if (figure == nullptr || !is_there(*figure)) continue;
    row.marks.push_back({i, *figure});
    words += fmt::format("{} {}, ", name, to_text(*figure, 2));
  }
  return words;
}

// Rows are attacks, points methods, the band the floor of the attack.
DotChart leak_chart(const Comparison& comparison, bool forgotten, Observer observer,
                    const NamedFigure<AttackLeak>& named) {
  DotChart picture = empty_chart(comparison, forgotten, observer, named.chart);
  const ObserverLeak* floors = floor_of(comparison, forgotten, observer);
  for (const auto& [attack, answers] : attacks_of(comparison, forgotten, observer)) {
    DotChart::Row row{.label = title_of(attack, answers), .marks = {}, .floor = {}};
    const std::string words = add_marks(
        comparison, row, [&, attack = attack, answers = answers](const AuditResult& audit) {
          const AttackLeak* leak =
              find(find(group_of(audit.leaks, forgotten), observer), attack, answers);
          return leak == nullptr ? nullptr : &(leak->*named.figure);
        });
    if (row.marks.empty()) continue;
    row.floor = figure_at(find(floors, attack, answers), named.figure, comparison.no_floor);
    if (row.floor.value) picture.floor_name = kFloorName;
    picture.description += row.label + ": " + words;
    picture.description +=
        row.floor.value ? fmt::format("floor {}. ", to_text(row.floor, 2)) : ". ";
    picture.rows.push_back(std::move(row));
  }
  return picture;
}

// One picture per observer and figure, on a common scale.
std::string leak_panels(const Comparison& comparison, bool forgotten) {
  std::string out;
  for (const NamedFigure<AttackLeak>& named : kAttackFigures) {
    if (named.chart == nullptr) continue;
    std::vector<DotChart> pictures;
    CommonScale scale{.high = 0.2};
    for (const Observer observer : all_values<Observer>()) {
      DotChart picture = leak_chart(comparison, forgotten, observer, named);
      if (picture.rows.empty()) continue;
      for (const DotChart::Row& row : picture.rows)
        for (const DotChart::Mark& mark : row.marks) scale.add(mark.figure);
      pictures.push_back(std::move(picture));
    }
    if (pictures.empty()) continue;
    out += "<div class=\"panels\">\n";
    for (DotChart& picture : pictures) {
      picture.low = scale.bottom();
      picture.high = scale.top();
      out += figure(picture);
    }
    out += "</div>\n";
  }
  return out;
}

// Where one method's inputs of a class go, beside where those of retrained models do.
std::string destination_panel(const std::string& method, const std::string& class_title,
                              const std::vector<std::string>& labels,
                              const std::vector<MeanStd>& shares,
                              const std::vector<MeanStd>* reference, double top) {
  using enum TextTable::Align;
  BarChart picture;
  picture.title = fmt::format("{}: where {} goes", method, class_title);
  picture.description = "By top-1 label. ";
  picture.series = series_of(method);
  picture.reference_name = "retrained without it";
  picture.axis = "share of its inputs, by top-1 label";
  picture.high = top;
  TextTable numbers({{"top-1 label"}, {method, right}, {"± sd", right}});
  if (reference != nullptr) {
    numbers.columns.push_back({"retrained", right});
    numbers.columns.push_back({"± sd", right});
  }
  const auto number = [](double value) { return fmt::format("{:.3f}", value); };
  for (std::size_t i = 0; i < shares.size(); ++i) {
    BarChart::Row row{.label = labels[i], .value = shares[i], .reference = {}};
    std::vector<std::string> cells{row.label, number(shares[i].mean), number(shares[i].std)};
    if (reference != nullptr && i < reference->size()) {
      row.reference = (*reference)[i];
      cells.push_back(number(row.reference->mean));
      cells.push_back(number(row.reference->std));
    }
    picture.description += fmt::format("{}: {}, retrained {}. ", row.label, cells[1],
                                       cells.size() > 3 ? cells[3] : "not measured");
    numbers.add_row(std::move(cells));
    picture.rows.push_back(std::move(row));
  }
  return figure(svg(picture), numbers);
}

std::string destination_panels(const Comparison& comparison) {
  if (comparison.methods.empty()) return "";
  struct Destinations {
    std::vector<std::pair<const AuditedMethod*, const Misclassification*>> seen;
    const Misclassification* retrained = nullptr;  // the same for every method
    double top = 0.1;
  };
  std::map<std::size_t, Destinations> by_class;
  for (const AuditedMethod& method : comparison.methods)
    for (const Misclassification& bars : method.audit.misclassification) {
      Destinations& of_class = by_class[bars.label];
      if (bars.population == "seen")
        of_class.seen.emplace_back(&method, &bars);
      else if (bars.population == "unseen" && &method == &comparison.methods.front())
        of_class.retrained = &bars;
      else
        continue;
      for (const MeanStd& share : bars.shares)
        of_class.top = std::max(of_class.top, share.mean + share.std);
    }
  std::string out;
  for (const auto& [label, of_class] : by_class) {
    const std::string name = class_name(comparison.methods.front().audit.class_names, label);
    if (by_class.size() > 1) out += fmt::format("<h3>Inputs of {}</h3>\n", escape(name));
    out += "<div class=\"panels\">\n";
    for (const auto& [method, bars] : of_class.seen)
      out += destination_panel(
          method->name, name, retained_names(method->audit, bars->shares.size()), bars->shares,
          of_class.retrained != nullptr ? &of_class.retrained->shares : nullptr,
          std::min(1.0, std::ceil(of_class.top * 10 - 1e-9) / 10));
    out += "</div>\n";
  }
  return out;
}

// Rows are directions, points methods.
DotChart ks_chart(const Comparison& comparison, bool forgotten, Observer observer) {
  DotChart picture = empty_chart(comparison, forgotten, observer, "Kolmogorov–Smirnov distance");
  const ObserverLeak* floors = floor_of(comparison, forgotten, observer);
  for (const NamedFigure<ObserverLeak>& named : kObserverFigures) {
    if (named.chart == nullptr) continue;
    DotChart::Row row{.label = named.chart, .marks = {}, .floor = {}};
    const std::string words = add_marks(comparison, row, [&](const AuditResult& audit) {
      const ObserverLeak* leak = find(group_of(audit.leaks, forgotten), observer);
      return leak == nullptr ? nullptr : &(leak->*named.figure);
    });
    if (row.marks.empty()) continue;
    if (std::ranges::any_of(row.marks,
                            [](const auto& mark) { return mark.figure.value.has_value(); }))
      row.floor = figure_at(floors, named.figure, comparison.no_floor);
    if (row.floor.value) picture.floor_name = kFloorName;
    picture.description += fmt::format("{}: {}. ", row.label, words);
    picture.rows.push_back(std::move(row));
  }
  return picture;
}

std::string ks_panels(const Comparison& comparison) {
  std::vector<DotChart> pictures;  // of the forgotten classes, then of the retained ones
  CommonScale scale{.high = 0.1};
  std::array<std::size_t, 2> of_group{};
  for (const bool forgotten : {true, false})
    for (const Observer observer : all_values<Observer>()) {
      DotChart picture = ks_chart(comparison, forgotten, observer);
      if (picture.rows.empty()) continue;
      for (const DotChart::Row& row : picture.rows) {
        for (const DotChart::Mark& mark : row.marks) scale.add(mark.figure);
        scale.add(row.floor);
      }
      ++of_group[forgotten ? 0 : 1];
      pictures.push_back(std::move(picture));
    }
  std::string out;
  auto picture = pictures.begin();
  for (std::size_t group = 0; group < of_group.size(); ++group) {
    if (of_group[group] == 0) continue;
    out += fmt::format("<h3>{}</h3>\n", kInputs[group]);
    std::string drawn, without;  // those that would have nothing in them
    for (std::size_t i = 0; i < of_group[group]; ++i, ++picture) {
      const bool any = std::ranges::any_of(picture->rows, [](const DotChart::Row& row) {
        return std::ranges::any_of(row.marks,
                                   [](const auto& mark) { return mark.figure.value.has_value(); });
      });
      picture->high = scale.top();
      if (any)
        drawn += figure(*picture);
      else
        without += paragraph(fmt::format("{}: {}.", picture->title,
                                         to_text(picture->rows.front().marks.front().figure)),
                             "note");
    }
    if (!drawn.empty()) out += "<div class=\"panels pairs\">\n" + drawn + "</div>\n";
    out += without;
  }
  return out;
}

void add_comparison(Sections& sections, const Comparison& comparison, std::size_t index,
                    bool several) {
  const std::string suffix = index == 0 ? "" : fmt::format("-{}", index + 1);
  const auto titled = [&](const char* title) {
    return several && !comparison.title.empty() ? fmt::format("{}: {}", title, comparison.title)
                                                : std::string(title);
  };
  std::string leaks = warning_list(comparison.warnings);
  if (const std::string panels = leak_panels(comparison, true); !panels.empty()) {
    leaks += paragraph(comparison.note, "note");
    leaks += fmt::format("<h3>{}</h3>\n", kInputs[0]) + panels;
    if (const std::string retained = leak_panels(comparison, false); !retained.empty())
      leaks += folded(sections.full(), fmt::format("<h3>{}</h3>", kInputs[1]), retained);
  }
  sections.add("leak" + suffix, titled("Leak by observer"), leaks);
  std::string where = destination_panels(comparison);
  if (!where.empty())
    where = paragraph(
                "What an observer of the top-1 label is told when he shows the model the forgotten "
                "class. The closer the coloured "
                "bars are to the grey ones, the more it behaves like a model that never saw the "
                "class. Bars are means over models, lines one standard deviation either way.") +
            where;
  sections.add("destinations" + suffix, titled("Where the forgotten class's inputs go"), where,
               true);
  std::string ks = ks_panels(comparison);
  if (!ks.empty())
    ks = paragraph(
             "How far apart the outputs of unlearned and retrained models lie, seen along one "
             "direction at a time. The all-ones direction is the only one in which normalization "
             "can differ from naive deletion. Equal populations, too, are some way apart, because "
             "they are finitely many models: the floor is what to compare with, not 0. Intervals "
             "are a jackknife over all models.") +
         ks;
  sections.add("ks" + suffix, titled("Distance by direction"), ks, true);
  std::string tables;
  for (const DotChart& picture : comparison.charts)
    tables += "<div class=\"panels\">" + figure(picture) + "</div>\n";
  for (const NamedTable& named : comparison.tables) tables += named_table(named);
  sections.add("tables" + suffix, titled("Class by class, accuracy and labels"), tables, true);
}

std::string receipt_section(const Receipt& receipt) {
  std::string out;
  if (!receipt.facts.empty()) out += definitions(receipt.facts);
  if (!receipt.digests.empty())
    out += "<h3>SHA-256 digests</h3>\n" + definitions(receipt.digests, "hex");
  for (const NamedTable& named : receipt.tables) out += named_table(named);
  return out;
}

std::string inversion_section(const Inversion& inversion) {
  std::string out = paragraph(inversion.caption);
  for (const Picture& sheet : inversion.sheets)
    out += fmt::format(
        "<figure><img class=\"sheet\" alt=\"{}\" src=\"data:image/png;base64,{}\">"
        "<figcaption>{}</figcaption></figure>\n",
        escape(sheet.description), base64(sheet.png), escape(sheet.title));
  for (const NamedTable& named : inversion.tables) out += named_table(named);
  return out;
}

}  // namespace

std::string page(const ReportData& data) {
  Sections sections(data.full);
  for (std::size_t i = 0; i < data.comparisons.size(); ++i)
    add_comparison(sections, data.comparisons[i], i, data.comparisons.size() > 1);
  // Beside an audit, the receipt's own leak check is a section; alone it is the answer's picture.
  if (data.receipt && !data.receipt->leak_checks.empty() && !data.comparisons.empty()) {
    const DotChart picture = chart(*data.receipt);
    sections.add(
        "leak-check", "Leak check of the single model",
        paragraph(sentence(*data.receipt)) + "<div class=\"panels\">" + figure(picture) + "</div>");
  }
  std::string published;
  for (const NamedTable& named : data.published) published += named_table(named);
  sections.add("published", "The published figures beside ours", published, true);
  if (data.methods)
    sections.add("methods", "Every method: leak against cost",
                 paragraph(data.methods->note, "note") + "<figure>" + svg(data.methods->chart) +
                     "</figure>\n<div class=\"scroll\">" + html(data.methods->table) + "</div>\n");
  if (data.inversion)
    sections.add("inversion", "Model inversion", inversion_section(*data.inversion));
  if (data.receipt) sections.add("receipt", "Receipt", receipt_section(*data.receipt));
  if (!data.not_tested.empty())
    sections.add("not-tested", "What was not tested", unordered_list(data.not_tested));
  if (!data.limits.empty()) sections.add("limits", "Limits", unordered_list(data.limits));
  if (!data.provenance.empty())
    sections.add("provenance", "Where this comes from", definitions(data.provenance));

  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      // Should markup ever slip through, the browser still loads and runs nothing.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; img-src data:\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"oubli {}\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{} – Oubli report</title>\n<style>{}</style></head>\n<body{}><main>\n"
      "<header><p class=\"kind\">Oubli report</p><h1>{}</h1></header>\n{}<nav "
      "aria-label=\"Sections\">\n{}"
      "</nav>\n{}</main></body></html>\n",
      kVersion, escape(data.title), style_sheet(), data.full ? " class=\"full\"" : "",
      escape(data.title), answer(data), sections.links(), sections.body());
}

}  // namespace oubli::report
