#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "oubli/report/report_data.h"

namespace oubli::report {

// One audited method: its name and the JSON of its audit (oubli/audit/audit.h).
using AuditedMethod = std::pair<std::string, const nlohmann::json*>;

// What the page shows of audits of several methods on the same populations. `floor` is the audit
// (or null) of retrained against retrained models; where it is null, an audit's own floor serves.
[[nodiscard]] Audit audit_data(const std::vector<AuditedMethod>& methods,
                               const nlohmann::json* floor);

// What an audit says against its own figures.
[[nodiscard]] std::vector<std::string> warnings_of(const nlohmann::json& audit);

// The names of classes, by number; "class 3" where the document has none.
[[nodiscard]] std::string class_name(const nlohmann::json& document, std::size_t label);

}  // namespace oubli::report
