#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "oubli/experiment/methods.h"
#include "oubli/experiment/results.h"
#include "oubli/report/report_data.h"

namespace oubli::report {

// Reads whatever Oubli writes and a report can show: a run folder (its results.json, and what
// `oubli invert` left in it), a results file, an audit, a receipt, an inversion, a table of
// methods. Several inputs make one report, the first audit judged at the top. Error{bad_input}
// names the file and what is wrong.
[[nodiscard]] ReportData read_report(std::span<const std::filesystem::path> inputs);

// read_report(), drawn as a page at `output`, which is replaced if `replace`, but not if it was
// read. `method` as in ReportData, but Error{usage} if it is named and was not measured; an empty
// `title` leaves that of the inputs. `full`: nothing is folded away. Says on stderr where the page
// is.
void write_report(std::span<const std::filesystem::path> inputs,
                  const std::filesystem::path& output, bool replace, const std::string& method = "",
                  const std::string& title = "", bool full = false);

// The tables of a run's results.json and methods.json as Markdown, made again from their figures.
// Error{usage} where there are none.
[[nodiscard]] std::string tables_as_markdown(std::span<const std::filesystem::path> inputs);

// The parts of it, one per format; `document` has passed the check of format and version.
void add_results(ReportData& data, Results results);
void add_audit(ReportData& data, AuditResult audit);
void add_methods(ReportData& data, const MethodsResult& result);
void add_receipt(ReportData& data, const nlohmann::json& document);
// `folder` holds the pictures that the document names.
void add_inversion(ReportData& data, const nlohmann::json& document,
                   const std::filesystem::path& folder);

}  // namespace oubli::report
