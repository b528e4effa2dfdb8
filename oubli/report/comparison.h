#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oubli/report/report_data.h"

namespace oubli::report {

// What the page shows of audits of several methods on the same populations. `floor` is the audit of
// retrained against retrained models; where there is none, an audit's own floor serves.
[[nodiscard]] Comparison compare(std::vector<AuditedMethod> methods,
                                 const std::optional<AuditResult>& floor = {});

// The name of a class; "class 3" where there is none.
[[nodiscard]] std::string class_name(const std::vector<std::string>& names, std::size_t label);

// "97.0 ± 0.2" with both multiplied by `scale`; "not computed: `reason`" where there is none.
[[nodiscard]] std::string plus_minus(const std::optional<MeanStd>& figure, double scale, int digits,
                                     const std::string& reason);

// The names of the retained classes, as many as the columns of an audit's misclassification.
[[nodiscard]] std::vector<std::string> retained_names(const AuditResult& audit,
                                                      std::size_t columns);

}  // namespace oubli::report
