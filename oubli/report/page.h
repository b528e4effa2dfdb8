#pragma once

#include <string>

#include "oubli/report/report_data.h"

namespace oubli::report {

// The report as one self-contained HTML file: no script, no network, styles and pictures inside.
[[nodiscard]] std::string page(const ReportData& data);

// Its style sheet: light, dark and print.
[[nodiscard]] const char* style_sheet();

}  // namespace oubli::report
