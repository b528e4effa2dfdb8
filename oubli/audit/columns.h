#pragma once

#include <cstdint>

#include "oubli/audit/audit.h"

namespace oubli {

// The columns of the logits and the forgotten classes make the number of classes, if the columns of
// the latter are gone. Where they are not, everything would be read under wrong classes: so
// something else that is given (labels, class names, logits before) must say the same number.
// Error{bad_input} if nothing does, or something contradicts. `input.samples` is not looked at.
void check_columns_gone(const AuditInput& input, std::size_t forgotten,
                        std::uint32_t largest_label);

}  // namespace oubli
