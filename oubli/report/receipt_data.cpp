// What the page shows of a receipt (oubli/forget/receipt.h).
#include <nlohmann/json.hpp>

#include "oubli/base/error.h"
#include "oubli/report/json_fields.h"
#include "oubli/report/read_report.h"

namespace oubli::report {

using nlohmann::json;

void add_receipt(ReportData& data, const json& document) {
  Receipt out;
  out.method = text(document, "method");
  data.receipt = std::move(out);
}

}  // namespace oubli::report
