#pragma once

#include <string>

#include "oubli/forget/forget.h"

namespace oubli::cli {

// What `forget` and `inspect` tell a person.
[[nodiscard]] std::string describe_model(const ModelFile& model,
                                         std::span<const std::string> class_names);
[[nodiscard]] std::string describe_plan(const ForgetInputs& inputs, const ForgetRequest& request,
                                        const ForgetPlan& plan, const ForgetOutcome& outcome);
// What forgetting does not do, and no receipt proves.
[[nodiscard]] std::string limits_text();
// SHA-256 of what went in and what came out.
[[nodiscard]] std::string describe_digests(const ForgetPlan& plan, const ForgetOutcome& outcome);
// About the written model, beyond what describe_model() says of the old one: names that are still
// in it, metadata that could not be cut, tensors that were removed.
[[nodiscard]] std::string describe_findings(const ModelFile& model, const ForgetOutcome& outcome);

}  // namespace oubli::cli
