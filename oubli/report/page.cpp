#include "oubli/report/page.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "oubli/base/error.h"
#include "oubli/base/version.h"
#include "oubli/report/verdict.h"

namespace oubli::report {
namespace {

constexpr std::string_view kNumbers = "Numbers behind this picture";
constexpr const char* kInputs[] = {"On inputs of the forgotten class",
                                   "On inputs of the retained classes (mean over classes)"};

// Values without repetition, in order of appearance.
template <typename T>
std::vector<std::string> distinct(const std::vector<T>& items,
                                  const std::function<std::string(const T&)>& key) {
  std::vector<std::string> out;
  for (const T& item : items)
    if (std::string name = key(item); std::ranges::find(out, name) == out.end())
      out.push_back(std::move(name));
  return out;
}

std::string paragraph(std::string_view text, std::string_view css = "") {
  if (text.empty()) return "";
  return css.empty() ? fmt::format("<p>{}</p>\n", escape(text))
                     : fmt::format("<p class=\"{}\">{}</p>\n", css, escape(text));
}

std::string figure(const std::string& picture, const Table& numbers,
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

std::string list(const std::vector<std::string>& items) {
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

// The upper end of a common scale: the largest value or interval's end, rounded up to a tenth.
double common_top(const std::vector<const Measured*>& all, double at_least) {
  double top = at_least;
  for (const Measured* m : all)
    if (m->value) top = std::max({top, *m->value, m->high.value_or(0)});
  return std::min(1.0, std::ceil(top * 10 - 1e-9) / 10);
}

// The lower end: 0, or below if a value is.
double common_bottom(const std::vector<const Measured*>& all) {
  double bottom = 0;
  for (const Measured* m : all)
    if (m->value) bottom = std::min(bottom, *m->value);
  return bottom > -0.02 ? 0 : std::max(-1.0, std::floor(bottom * 10 + 1e-9) / 10);
}

// Collects the sections and the list of links to them.
class Sections {
 public:
  void add(const std::string& id, const std::string& title, const std::string& body) {
    if (body.empty()) return;
    links_ += fmt::format("<a href=\"#{}\">{}</a>\n", id, escape(title));
    body_ += fmt::format("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", id, escape(title), body);
  }
  [[nodiscard]] const std::string& links() const { return links_; }
  [[nodiscard]] const std::string& body() const { return body_; }

 private:
  std::string links_;
  std::string body_;
};

std::string answer(const ReportData& data) {
  std::string out =
      "<section class=\"answer\" id=\"answer\"><h2>Can I hand this model over, and against "
      "whom?</h2>\n";
  if (!data.audits.empty() && !data.audits.front().leaks.empty()) {
    const Audit& audit = data.audits.front();
    const std::string method = judged_method(audit, data.method);
    const auto verdicts = judge(audit, method);
    const VerdictChart picture = chart(verdicts, method);
    out += paragraph(sentence(verdicts, method), "sentence");
    out += figure(svg(picture, true) + svg(picture, false), table(picture), reasons(picture));
    out += warning_list(audit.warnings);
    std::string note = fmt::format(
        "The attacker is given the model's output on inputs of the forgotten class ({}) and must "
        "say whether the model was made by {} or retrained without that class. The strongest "
        "attack tried is shown, with its 95 % interval where there is one. Not told apart: the "
        "interval reaches {}. Undecided: it also reaches {:.0f} right answers in 100 above; more "
        "networks "
        "would tell. "
        "Faintly: above that by fewer than {:.0f} right answers in 100.",
        join(audit.forgotten), method,
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
  } else {
    out += paragraph("Nothing was measured that could answer this.", "sentence");
    if (!data.audits.empty()) out += warning_list(data.audits.front().warnings);
  }
  return out + "</section>\n";
}

// One picture per observer: rows are attacks, points methods, the band the floor of the attack.
std::string leak_panels(const Audit& audit, bool forgotten) {
  const auto methods = distinct<Leak>(audit.leaks, [](const Leak& l) { return l.method; });
  const auto observers = distinct<Leak>(audit.leaks, [](const Leak& l) { return l.observer; });
  const auto attacks = distinct<Leak>(audit.leaks, [](const Leak& l) { return l.attack; });
  std::vector<const Measured*> all;
  bool any = false;
  for (const Leak& leak : audit.leaks) {
    const Measured& m = forgotten ? leak.forgotten : leak.retained;
    any = any || m.value || !m.reason.empty();
    all.push_back(&m);
  }
  if (!any) return "";
  const double top = common_top(all, 0.2);
  std::string out = "<div class=\"panels\">\n";
  for (const std::string& observer : observers) {
    DotChart picture;
    picture.title = "Observer sees " + seen_by(observer);
    picture.description = kInputs[forgotten ? 0 : 1] + std::string(". ");
    picture.axis = "advantage (0 = guessing, 1 = certain)";
    picture.low = common_bottom(all);
    picture.high = top;
    for (const std::string& method : methods) picture.series.push_back(series_of(method));
    for (const std::string& attack : attacks) {
      DotChart::Row row{.label = attack, .marks = {}, .floor = {}};
      for (const Leak& leak : audit.leaks) {
        if (leak.observer != observer || leak.attack != attack) continue;
        const auto series =
            static_cast<std::size_t>(std::ranges::find(methods, leak.method) - methods.begin());
        row.marks.push_back({series, forgotten ? leak.forgotten : leak.retained});
        const Measured& floor = forgotten ? leak.forgotten_floor : leak.retained_floor;
        if (floor.value || !row.floor.value) row.floor = floor;
        if (floor.value) picture.floor_name = "floor: retrained against retrained";
      }
      if (row.marks.empty()) continue;
      picture.description += attack + ": ";
      for (const auto& mark : row.marks)
        picture.description +=
            fmt::format("{} {}, ", methods[mark.series], to_text(mark.measured, 2));
      picture.description +=
          row.floor.value ? fmt::format("floor {}. ", to_text(row.floor, 2)) : ". ";
      picture.rows.push_back(std::move(row));
    }
    out += figure(picture);
  }
  return out + "</div>\n";
}

std::string destination_panels(const Audit& audit) {
  std::string out;
  const auto classes = distinct<Destinations>(
      audit.destinations, [](const Destinations& d) { return d.forgotten_class; });
  for (const std::string& name : classes) {
    const Destinations* reference = nullptr;
    double top = 0.1;
    for (const Destinations& d : audit.destinations) {
      if (d.forgotten_class != name) continue;
      if (d.method == "retrained") reference = &d;
      for (const Measured& share : d.shares) top = std::max(top, share.high.value_or(0));
    }
    if (classes.size() > 1) out += fmt::format("<h3>Inputs of {}</h3>\n", escape(name));
    out += "<div class=\"panels\">\n";
    for (const Destinations& d : audit.destinations) {
      if (d.forgotten_class != name || &d == reference) continue;
      BarChart picture;
      picture.title = fmt::format("{}: where {} goes", d.method, name);
      picture.description = "By top-1 label. ";
      picture.series = series_of(d.method);
      picture.reference_name = "retrained without it";
      picture.axis = "share of its inputs, by top-1 label";
      picture.high = std::min(1.0, std::ceil(top * 10 - 1e-9) / 10);
      Table numbers{{{"top-1 label"}, {d.method, true}, {"± sd", true}}, {}};
      if (reference != nullptr) {
        numbers.columns.push_back({"retrained", true});
        numbers.columns.push_back({"± sd", true});
      }
      const auto spread = [](const Measured& m) {
        return m.value && m.high ? fmt::format("{:.3f}", *m.high - *m.value) : std::string("–");
      };
      for (std::size_t i = 0; i < d.classes.size(); ++i) {
        BarChart::Row row{.label = d.classes[i], .value = d.shares[i], .reference = {}};
        std::vector<std::string> cells{
            row.label, row.value.value ? fmt::format("{:.3f}", *row.value.value) : "–",
            spread(row.value)};
        if (reference != nullptr && i < reference->shares.size()) {
          row.reference = reference->shares[i];
          cells.push_back(row.reference.value ? fmt::format("{:.3f}", *row.reference.value) : "–");
          cells.push_back(spread(row.reference));
        }
        picture.description += fmt::format("{}: {}, retrained {}. ", row.label, cells[1],
                                           cells.size() > 3 ? cells[3] : "not measured");
        cells.resize(numbers.columns.size());
        numbers.rows.push_back(std::move(cells));
        picture.rows.push_back(std::move(row));
      }
      out += figure(svg(picture), numbers);
    }
    out += "</div>\n";
  }
  return out;
}

std::string ks_panels(const Audit& audit) {
  if (audit.ks.empty()) return "";
  std::vector<const Measured*> all;
  for (const KsDistance& k : audit.ks)
    for (const Measured* m : {&k.random, &k.ones, &k.random_floor, &k.ones_floor}) all.push_back(m);
  const double top = common_top(all, 0.1);
  std::string out;
  for (const bool forgotten : {true, false}) {
    std::string pictures;
    std::string without;  // pictures that would have nothing in them
    for (const std::string& observer :
         distinct<KsDistance>(audit.ks, [](const KsDistance& k) { return k.observer; })) {
      DotChart picture;
      picture.title = "Observer sees " + seen_by(observer);
      picture.description = kInputs[forgotten ? 0 : 1] + std::string(". ");
      picture.axis = "Kolmogorov–Smirnov distance";
      picture.high = top;
      DotChart::Row random{.label = "mean over random directions", .marks = {}, .floor = {}};
      DotChart::Row ones{.label = "all-ones direction", .marks = {}, .floor = {}};
      for (const KsDistance& k : audit.ks) {
        if (k.forgotten != forgotten || k.observer != observer) continue;
        picture.series.push_back(series_of(k.method));
        random.marks.push_back({picture.series.size() - 1, k.random});
        if (k.random_floor.value || !random.floor.value) random.floor = k.random_floor;
        if (k.ones.value || !k.ones.reason.empty())
          ones.marks.push_back({picture.series.size() - 1, k.ones});
        if (k.ones.value && (k.ones_floor.value || !ones.floor.value)) ones.floor = k.ones_floor;
        picture.description += fmt::format("{}: random {}, all-ones {}. ", k.method,
                                           to_text(k.random, 2), to_text(k.ones, 2));
      }
      if (random.marks.empty()) continue;
      const auto none = [](const DotChart::Row& row) {
        return std::ranges::none_of(row.marks,
                                    [](const auto& m) { return m.measured.value.has_value(); });
      };
      if (none(random) && none(ones)) {
        without += paragraph(
            fmt::format("{}: {}.", picture.title, to_text(random.marks.front().measured)), "note");
        continue;
      }
      if (random.floor.value) picture.floor_name = "floor: retrained against retrained";
      picture.rows.push_back(std::move(random));
      if (!ones.marks.empty()) picture.rows.push_back(std::move(ones));
      pictures += figure(picture);
    }
    if (!pictures.empty() || !without.empty())
      out += fmt::format("<h3>{}</h3>\n", kInputs[forgotten ? 0 : 1]);
    if (!pictures.empty()) out += "<div class=\"panels pairs\">\n" + pictures + "</div>\n";
    out += without;
  }
  return out;
}

void add_audit(Sections& sections, const Audit& audit, std::size_t index, bool several) {
  const std::string suffix = index == 0 ? "" : fmt::format("-{}", index + 1);
  const auto titled = [&](const char* title) {
    return several && !audit.title.empty() ? fmt::format("{}: {}", title, audit.title)
                                           : std::string(title);
  };
  std::string leaks = warning_list(audit.warnings);
  if (const std::string panels = leak_panels(audit, true); !panels.empty()) {
    leaks += paragraph(audit.note, "note");
    leaks += fmt::format("<h3>{}</h3>\n", kInputs[0]) + panels;
    if (const std::string retained = leak_panels(audit, false); !retained.empty())
      leaks += fmt::format("<h3>{}</h3>\n", kInputs[1]) + retained;
  }
  sections.add("leak" + suffix, titled("Leak by observer"), leaks);
  std::string where = destination_panels(audit);
  if (!where.empty())
    where = paragraph(
                "What an observer of the top-1 label is told when he shows the model the forgotten "
                "class. The closer the coloured "
                "bars are to the grey ones, the more it behaves like a model that never saw the "
                "class. Bars are means over models, lines one standard deviation either way.") +
            where;
  sections.add("destinations" + suffix, titled("Where the forgotten class's inputs go"), where);
  std::string ks = ks_panels(audit);
  if (!ks.empty())
    ks = paragraph(
             "How far apart the outputs of unlearned and retrained models lie, seen along one "
             "direction at a time. The all-ones direction is the only one in which normalization "
             "can differ from naive deletion. Equal populations, too, are some way apart, because "
             "they are finitely many models: the floor is what to compare with, not 0. Intervals "
             "are a jackknife over all models.") +
         ks;
  sections.add("ks" + suffix, titled("Distance by direction"), ks);
  std::string tables;
  for (const DotChart& picture : audit.charts)
    tables += "<div class=\"panels\">" + figure(picture) + "</div>\n";
  for (const NamedTable& named : audit.tables) tables += named_table(named);
  sections.add("tables" + suffix, titled("Class by class, accuracy and labels"), tables);
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
  Sections sections;
  for (std::size_t i = 0; i < data.audits.size(); ++i)
    add_audit(sections, data.audits[i], i, data.audits.size() > 1);
  // Beside an audit, the receipt's own leak check is a section; alone it is the answer's picture.
  if (data.receipt && !data.receipt->leak_checks.empty() && !data.audits.empty()) {
    const DotChart picture = chart(*data.receipt);
    sections.add(
        "leak-check", "Leak check of the single model",
        paragraph(sentence(*data.receipt)) + "<div class=\"panels\">" + figure(picture) + "</div>");
  }
  std::string published;
  for (const NamedTable& named : data.published) published += named_table(named);
  sections.add("published", "The published figures beside ours", published);
  if (data.inversion)
    sections.add("inversion", "Model inversion", inversion_section(*data.inversion));
  if (data.receipt) sections.add("receipt", "Receipt", receipt_section(*data.receipt));
  if (!data.not_tested.empty())
    sections.add("not-tested", "What was not tested", list(data.not_tested));
  if (!data.limits.empty()) sections.add("limits", "Limits", list(data.limits));
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
      "<title>{} – Oubli report</title>\n<style>{}</style></head>\n<body><main>\n"
      "<header><p class=\"kind\">Oubli report</p><h1>{}</h1></header>\n{}<nav "
      "aria-label=\"Sections\">\n{}"
      "</nav>\n{}</main></body></html>\n",
      kVersion, escape(data.title), style_sheet(), escape(data.title), answer(data),
      sections.links(), sections.body());
}

}  // namespace oubli::report
