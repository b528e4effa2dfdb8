#include "oubli/report/read_report.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "oubli/base/digest.h"
#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/json_fields.h"
#include "oubli/base/output.h"
#include "oubli/base/progress.h"
#include "oubli/base/version.h"
#include "oubli/report/page.h"

namespace oubli::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kNewestVersion = 1;  // of every format below

void add_document(ReportData& data, const json& document, const fs::path& path) {
  std::string format;
  read_field(document, "format", format);
  std::size_t version = 1;
  read_field(document, "version", version);
  if (version > kNewestVersion)
    fail(ErrorCode::bad_input, ": version {}, this program reads up to {}: use a newer program",
         version, kNewestVersion);
  if (format == "oubli-results") return add_results(data, document.get<Results>());
  if (format == "oubli-audit") return add_audit(data, document.get<AuditResult>());
  if (format == "oubli-receipt") return add_receipt(data, document);
  if (format == "oubli-inversion") return add_inversion(data, document, path.parent_path());
  if (format == "oubli-methods") return add_methods(data, document.get<MethodsResult>());
  fail(ErrorCode::bad_input,
       ": format '{}' is none that a report can show (oubli-results, oubli-audit, oubli-receipt, "
       "oubli-inversion, oubli-methods)",
       format);
}

void add_file(ReportData& data, const fs::path& path) {
  data.files.push_back(path);
  const std::string text = read_text_file(path, std::size_t{1} << 30);
  const json document = parse_document(text, path.string());
  if (!document.is_object())
    fail(ErrorCode::bad_input, "{}: not a JSON object; expected a file written by oubli",
         path.string());
  try {
    add_document(data, document, path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) throw;
    const std::string_view message = error.what();
    fail(ErrorCode::bad_input, "{}{}{}", path.string(), message.starts_with(':') ? "" : ": ",
         message);
  }
  data.provenance.emplace_back(path.filename().string(), "SHA-256 " + sha256_hex(as_bytes(text)));
}

// What holds for every model that was filtered, whoever measured it.
std::vector<std::string> general_limits() {
  return {
      "Filtration aims at weak (black-box) unlearning: that the model's answers look like those "
      "of a model that never saw the class. It is not erasure from the weights. The features "
      "still know the class: a linear probe on them finds it again, as it does on a retrained "
      "network.",
      "It holds in good faith only: the old file, its backups and whatever else was derived from "
      "the class's data must go too.",
      "Normalization and naive deletion give the same probabilities and the same labels; they "
      "differ for an observer of logits only.",
      "Figures hold for the attacks, data and observers named here. An attack that was not tried "
      "may do better.",
      "Whether this satisfies a law or a contract is a question for lawyers, which these figures "
      "do not "
      "answer."};
}

void require_measured(const std::string& method, const std::vector<Comparison>& comparisons) {
  std::vector<std::string> measured;
  if (!comparisons.empty())  // the one that is judged
    for (const AuditedMethod& audited : comparisons.front().methods)
      measured.push_back(audited.name);
  if (std::ranges::find(measured, method) != measured.end()) return;
  if (measured.empty())
    fail(ErrorCode::usage, "--method {}: nothing here was audited, so no method is judged", method);
  fail(ErrorCode::usage, "--method {}: was not audited here; there is {}", method,
       fmt::join(measured, ", "));
}

}  // namespace

ReportData read_report(std::span<const fs::path> inputs) {
  ReportData data;
  for (const fs::path& input : inputs) {
    if (!fs::is_directory(input)) {
      add_file(data, input);
      continue;
    }
    bool any = false;
    for (const char* name : {"results.json", "inversion.json", "methods.json"}) {
      if (!fs::exists(input / name)) continue;
      add_file(data, input / name);
      any = true;
    }
    if (!any)
      fail(ErrorCode::missing,
           "{}: has none of results.json, inversion.json and methods.json; 'oubli reproduce' and "
           "'oubli invert' write them",
           input.string());
  }
  if (data.limits.empty()) data.limits = general_limits();  // a receipt has its own words
  data.provenance.emplace_back("program", fmt::format("oubli {}", kVersion));
  return data;
}

std::string tables_as_markdown(std::span<const fs::path> inputs) {
  ReportData data = read_report(inputs);
  if (data.markdown.empty())
    fail(ErrorCode::usage, "--markdown: nothing here has tables; results.json and methods.json do");
  return std::move(data.markdown);
}

void write_report(std::span<const fs::path> inputs, const fs::path& output, bool replace,
                  const std::string& method, const std::string& title, bool full) {
  prepare_output(output, replace);
  ReportData data = read_report(inputs);
  require_apart(std::vector{output}, data.files);
  if (!method.empty()) require_measured(method, data.comparisons);
  data.method = method;
  data.full = full;
  if (!title.empty()) data.title = title;
  write_file(output, page(data), replace);
  say(fmt::format("report: file://{}", fs::absolute(output).lexically_normal().string()));
}

}  // namespace oubli::report
