#pragma once

#include <string>

#include "oubli/audit/audit.h"
#include "oubli/experiment/results.h"

namespace oubli::cli {

// What the observer is shown, within a sentence.
[[nodiscard]] std::string seen(Observer observer);

// What `audit` says first: the verdict, and for each observer how often the strongest attack is
// right. `audit --full` has every attack and figure.
[[nodiscard]] std::string summary_of(const AuditResult& result);

// The same of every method of an experiment, one line each.
[[nodiscard]] std::string summary_of(const Results& results);

// What the columns and abbreviations of the experiment's tables mean.
[[nodiscard]] std::string legend_of_tables();

}  // namespace oubli::cli
