#pragma once

#include <string>
#include <vector>

#include "oubli/audit/audit.h"
#include "oubli/evidence/statement.h"

namespace oubli {

// A limit on what a leak may be above its floor, set against a verdict.
enum class Gate {
  passed,     // the interval is below the limit
  failed,     // above it
  undecided,  // it holds the limit, or there is none
};
[[nodiscard]] Gate gate(const Figure& excess, double limit);

// The audit as an in-toto test result about `model`: one test for each number of answers that an
// attacker gets, and one over all of them. A test that the networks do not decide is a warning.
// `arrays` are what was read. Classes are named by number alone: a statement is for strangers.
[[nodiscard]] Statement audit_statement(const Artifact& model, const AuditResult& result,
                                        double limit, std::vector<Artifact> arrays);

}  // namespace oubli
