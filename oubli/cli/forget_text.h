#pragma once

#include <string>

#include "oubli/forget/forget.h"

namespace oubli::cli {

// What `forget` and `inspect` tell a person.
[[nodiscard]] std::string describe_model(const ModelFile& model,
                                         std::span<const std::string> class_names);
[[nodiscard]] std::string describe_plan(const ForgetInputs& inputs, const ForgetRequest& request,
                                        const ForgetPlan& plan);

}  // namespace oubli::cli
