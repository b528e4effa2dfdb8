#include "oubli/report/certificate.h"

#include <fmt/chrono.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "oubli/audit/recognition.h"
#include "oubli/base/digest.h"
#include "oubli/base/file.h"
#include "oubli/base/json.h"
#include "oubli/base/output.h"
#include "oubli/base/progress.h"
#include "oubli/base/text_table.h"
#include "oubli/base/version.h"
#include "oubli/forget/forget.h"
#include "oubli/report/html.h"
#include "oubli/report/json_fields.h"
#include "oubli/report/page.h"
#include "oubli/report/read_report.h"
#include "oubli/report/verdict.h"

namespace oubli::report {
namespace {

using nlohmann::json;

// One check: done and well, done with something to look at, or not made.
struct Check {
  enum class State { good, look, not_made };
  State state = State::not_made;
  std::string what;
  std::string evidence;
};

const char* sign_of(Check::State state) {
  return state == Check::State::good ? "✓" : state == Check::State::look ? "!" : "–";
}
const char* word_of(Check::State state) {
  return state == Check::State::good ? "passed" : state == Check::State::look ? "look" : "not made";
}

// What the page says, taken out of the receipt.
struct Facts {
  Receipt receipt;
  std::string model, old_model, receipt_name, classes, note;
  std::size_t before = 0, after = 0;
  std::vector<Check> checks;
  std::string accuracy;
  std::vector<std::string> warnings, limits;
};

std::string model_name(const json& document, const char* side) {
  if (const json* part = find(document, side))
    for (const json& file : list(*part, "files"))
      if (text(file, "role") == "model") return text(file, "name");
  return "the model";
}

std::size_t classes_of(const json& document, const char* side) {
  const json* const part = find(document, side);
  const json* const head = part != nullptr ? find(*part, "head") : nullptr;
  return head != nullptr ? field<std::size_t>(*head, "classes") : 0;
}

Check head_gone(const json& document) {
  const json* const check = find(document, "self_check");
  if (check == nullptr) return {Check::State::not_made, "The old weights are gone", "not recorded"};
  if (field<bool>(*check, "forgotten_rows_absent"))
    return {Check::State::good, "The old weights are gone",
            "the forgotten rows are nowhere in the written file, in any float type"};
  return {Check::State::look, "The old weights are gone",
          "not shown: something else in the file may hold the same numbers"};
}

Check names_gone(const json& document) {
  const auto& classes = list(document, "classes");
  if (std::ranges::none_of(classes, [](const json& c) { return find(c, "name") != nullptr; }))
    return {Check::State::not_made, "The class's name is gone", "no name of it is known here"};
  std::vector<std::string> places;
  for (const json& finding : list(document, "findings"))
    if (text(finding, "text").find("still says the name") != std::string::npos)
      places.push_back(text(finding, "where"));
  if (places.empty())
    return {Check::State::good, "The class's name is gone",
            "a scan of the file found no trace of it"};
  return {Check::State::look, "The class's name is gone",
          fmt::format("look at: {}", fmt::join(places, ", "))};
}

Check self_check(const json& document) {
  const json* const check = find(document, "self_check");
  if (check == nullptr) return {Check::State::not_made, "The new layer is right", "not recorded"};
  return {Check::State::good, "The new layer is right",
          fmt::format("read back from the file; on {} {} within {:.2g} of what rounding allows",
                      field<std::size_t>(*check, "vectors"), text(*check, "mean_identity_on"),
                      field<std::optional<double>>(*check, "error_over_bound").value_or(0))};
}

const json* run_of_new_model(const json& document) {
  const json* const run = find(document, "run");
  const json* const found = run != nullptr ? find(*run, "new_model") : nullptr;
  return found != nullptr ? found : find(document, "run_on_random_inputs");
}

Check run_check(const json& document) {
  const json* const run = run_of_new_model(document);
  if (run == nullptr)
    return {Check::State::not_made, "The rest is unchanged",
            "copied byte for byte; the new file was not run"};
  return {Check::State::good, "The rest is unchanged",
          fmt::format("copied byte for byte; old and new model agree on {} inputs",
                      field<std::size_t>(*run, "samples"))};
}

Check signature(const json& document) {
  if (find(document, "signature") == nullptr)
    return {Check::State::not_made, "Signed", "no: anybody could have written this page"};
  return {Check::State::good, "Signed", "the receipt is; the command below checks by whom"};
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string accuracy_of(const json& document) {
  if (const json* run = run_of_new_model(document)) {
    const auto before = field<std::optional<double>>(*run, "kept_classes_accuracy_before");
    const auto after = field<std::optional<double>>(*run, "kept_classes_accuracy_after");
    if (before && after)
      return fmt::format("{} → {}, on {} inputs", percent(*before), percent(*after),
                         field<std::size_t>(*run, "samples"));
  }
  const json* const leaks = find(document, "leak_check");
  const json* const right = leaks != nullptr ? find(*leaks, "retained_right") : nullptr;
  const auto samples = leaks != nullptr ? field<std::size_t>(*leaks, "retained_samples") : 0;
  if (right == nullptr || samples == 0) return "not measured";
  return percent(static_cast<double>(field<std::size_t>(*right, "chosen")) /
                 static_cast<double>(samples)) +
         " after";
}

Facts facts_of(const json& document, const CertificateWords& words) {
  ReportData data;
  add_receipt(data, document);
  Facts facts;
  facts.receipt = *data.receipt;
  const std::string named = model_name(document, "output");
  facts.model = words.new_model.empty() ? named : words.new_model;
  facts.receipt_name =
      words.receipt_name.empty() ? receipt_path(named).string() : words.receipt_name;
  facts.old_model = words.old_model.empty() ? model_name(document, "input") : words.old_model;
  facts.classes = words.classes.empty() ? join(facts.receipt.forgotten) : words.classes;
  facts.before = classes_of(document, "input");
  facts.after = classes_of(document, "output");
  if (const json* request = find(document, "request")) facts.note = text(*request, "note");
  facts.checks = {head_gone(document), run_check(document), names_gone(document),
                  self_check(document), signature(document)};
  facts.accuracy = accuracy_of(document);
  facts.warnings = field<std::vector<std::string>>(document, "warnings");
  facts.limits = data.limits;
  return facts;
}

struct ObserverLine {
  std::string who, now, naive, words;
};

std::string_view beside_cutting(Compared compared) {
  switch (compared) {
    case Compared::less:
      return ", less than had its output merely been cut off";
    case Compared::same:
      return ", as if its output had merely been cut off";
    case Compared::more:
      break;
  }
  return ", more than had its output merely been cut off: the method did not help here";
}

// The strongest reading of each observer, who also knows what the ones below him see.
std::vector<ObserverLine> observers_of(const Receipt& receipt) {
  std::vector<ObserverLine> lines;
  for (const Observer observer : all_values<Observer>()) {
    std::optional<double> now, naive;
    bool any = false;
    for (const LeakCheck& check : receipt.leak_checks) {
      any = any || check.observer == observer;
      if (check.observer < observer) continue;
      if (check.chosen.value) now = std::max(now.value_or(0.5), *check.chosen.value);
      if (check.naive.value) naive = std::max(naive.value_or(0.5), *check.naive.value);
    }
    if (!any || !now) continue;
    std::string compared;
    if (naive && receipt.method != "naive") compared = beside_cutting(compare_areas(*now, *naive));
    lines.push_back({seen_by(observer), fmt::format("{:.2f}", *now),
                     naive ? fmt::format("{:.2f}", *naive) : "–",
                     fmt::format("recognises it {}{}", how_often(*now), compared)});
  }
  return lines;
}

std::string check_list(const std::vector<Check>& checks) {
  std::string out = "<ul class=\"checks\">\n";
  for (const Check& check : checks)
    out += fmt::format(
        "<li class=\"{}\"><b aria-label=\"{}\">{}</b> <strong>{}</strong>: {}</li>\n",
        check.state == Check::State::good   ? "good"
        : check.state == Check::State::look ? "look"
                                            : "none",
        word_of(check.state), sign_of(check.state), escape(check.what), escape(check.evidence));
  return out + "</ul>\n";
}

std::string observer_table(const Facts& facts) {
  const std::vector<ObserverLine> lines = observers_of(facts.receipt);
  if (lines.empty()) return "<p>Not measured: no data was given to look with.</p>\n";
  std::string out =
      "<table><tr><th>who sees</th><th class=\"n\">cut off</th><th class=\"n\">now</th><th>an "
      "input "
      "of the forgotten class (AUC: 0.5 is chance, 1 is always)</th></tr>\n";
  for (const ObserverLine& line : lines)
    out += fmt::format(
        "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>\n",
        escape(line.who), line.naive, line.now, escape(line.words));
  return out + "</table>\n<figure>" + svg(chart(facts.receipt)) + "</figure>\n";
}

constexpr const char* kSheet = R"css(
main { max-width: 800px; }
h2 { font-size: 16px; margin: 16px 0 2px; padding-top: 8px; }
h1 { margin-bottom: 6px; }
.big { font-size: 18px; }
.two { display: grid; grid-template-columns: 1fr 1fr; gap: 0 28px; }
@media (max-width: 620px) { .two { grid-template-columns: 1fr; } }
ul { margin: 4px 0; padding-left: 20px; } li { margin: 2px 0; }
ul.checks { list-style: none; padding: 0; }
ul.checks b { display: inline-block; width: 22px; height: 22px; line-height: 22px; border-radius: 11px; text-align: center; color: var(--page); }
ul.checks .good b { background: var(--good); } ul.checks .look b { background: var(--poor); } ul.checks .none b { background: var(--soft); }
code { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
ul.small { font-size: 13px; color: var(--soft); }
@page { size: A4; margin: 13mm 14mm; }
@media print {
  body { font-size: 8.8pt; line-height: 1.32; } h1 { font-size: 15pt; } h2 { font-size: 10.5pt; margin-top: 7px; padding-top: 4px; } .big { font-size: 10.5pt; }
  p { margin: 2px 0 4px; } ul.small { font-size: 7.5pt; } figure svg.chart { max-width: 300px; } ul.checks b { width: 15px; height: 15px; line-height: 15px; }
  .two { grid-template-columns: 1fr 1fr; } p, li { max-width: none; }
  #observers { display: grid; grid-template-columns: minmax(0, 1fr) 62mm; gap: 0 12px; align-items: start; } #observers h2 { grid-column: 1 / -1; }
}
)css";

std::string section(std::string_view id, std::string_view title, const std::string& body) {
  return fmt::format("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", id, title, body);
}

std::string items(const std::vector<std::string>& lines, std::string_view css = "") {
  std::string out = fmt::format("<ul class=\"{}\">\n", css);
  for (const std::string& line : lines) out += "<li>" + escape(line) + "</li>\n";
  return out + "</ul>\n";
}

}  // namespace

std::string certificate(const json& document, const CertificateWords& words) {
  const Facts facts = facts_of(document, words);
  const std::string about = fmt::format(
      "<p class=\"big\"><strong>{}</strong> was taken out of the model {}, which had {} classes; "
      "<strong>{}</strong> has {}. The last layer was rewritten by the method {}, without "
      "training; "
      "everything else was copied. What came out was checked before it was given its name.</p>\n",
      escape(facts.classes), escape(facts.old_model), facts.before, escape(facts.model),
      facts.after, escape(facts.receipt.method));
  std::string header = fmt::format("<p class=\"kind\">{}Oubli {}</p><h1>A class was forgotten</h1>",
                                   words.date.empty() ? "" : escape(words.date) + " · ", kVersion);
  if (!facts.note.empty()) header += fmt::format("<p>Request: {}</p>", escape(facts.note));
  std::string body = section("done", "What was done", about);
  body += section("checks", "What was checked", check_list(facts.checks));
  body += section("accuracy", "Accuracy on the classes kept",
                  fmt::format("<p class=\"big\">{}</p>\n", escape(facts.accuracy)));
  body += section("observers", "What an observer can still tell", observer_table(facts));
  if (!facts.warnings.empty()) body += section("warnings", "Warnings", items(facts.warnings));
  const std::vector<std::string> to_do{
      fmt::format("Delete {} and every copy of it: backups, caches, other machines.",
                  facts.old_model),
      "Delete its class means (a file .means.npz) and the images of the class, if they must go, "
      "too.",
      "Put the new file where the old one is in use."};
  body += "<div class=\"two\">\n" + section("to-do", "What you must still do", items(to_do)) +
          section("verify", "How to check this",
                  fmt::format("<p><code>oubli verify {}</code></p>\n<p>Receipt "
                              "<code>{}</code> (the first half of its SHA-256)</p>\n",
                              escape(facts.receipt_name), words.receipt_sha256.substr(0, 32))) +
          "</div>\n";
  body += section("limits", "What this does not prove", items(facts.limits, "small"));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; img-src data:\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"oubli {}\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{} – a class was forgotten</title>\n<style>{}{}</style></head>\n<body><main>\n"
      "<header>{}</header>\n{}</main></body></html>\n",
      kVersion, escape(facts.model), style_sheet(), kSheet, header, body);
}

Card share_card(const json& document, const CertificateWords& words) {
  constexpr std::uint32_t kSoft = 0x5b626c, kInk = 0x1b1e23, kGood = 0x00568a;
  const Facts facts = facts_of(document, words);
  Card card;
  card.lines = {
      {96, 28, kSoft, "Oubli · a class was forgotten, without retraining"},
      {178, 60, kInk, elided(facts.classes, 34)},
      {238, 34, kInk,
       fmt::format("{}: {} → {} classes", elided(facts.model, 44), facts.before, facts.after)}};
  int y = 318;
  for (const Check& check : facts.checks) {
    if (check.state != Check::State::good) continue;
    card.lines.push_back({y, 30, kGood, "✓ " + check.what});
    y += 44;
  }
  card.lines.push_back({548, 30, kInk, "Accuracy on the classes kept: " + facts.accuracy});
  card.lines.push_back(
      {598, 22, kSoft, "oubli verify · receipt " + words.receipt_sha256.substr(0, 32)});
  return card;
}

std::array<std::filesystem::path, 2> card_paths(const std::filesystem::path& page) {
  std::array<std::filesystem::path, 2> paths{page, page};
  paths[0].replace_extension(".card.svg");
  paths[1].replace_extension(".card.png");
  return paths;
}

void write_certificate(const std::filesystem::path& receipt, const std::filesystem::path& output,
                       bool replace, CertificateWords words) {
  const std::string text = read_text_file(receipt);
  const json document = parse_document(text, receipt.string());
  words.receipt_sha256 = sha256_hex(as_bytes(text));
  struct stat about {};
  if (words.date.empty() && ::stat(receipt.c_str(), &about) == 0)
    words.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(about.st_mtime));
  write_file(output, certificate(document, words), replace);
  const Card card = share_card(document, words);
  const auto [svg_path, png_path] = card_paths(output);
  write_file(svg_path, svg(card), replace);
  if (const auto font = card_font())
    write_file(png_path, png(card, *font), replace);
  else
    say(
        fmt::format("{} is not drawn: the font DejaVu Sans is missing (Debian: apt-get install "
                    "fonts-dejavu-core)",
                    png_path.string()));
  say(fmt::format("page: file://{}",
                  std::filesystem::absolute(output).lexically_normal().string()));
}

}  // namespace oubli::report
