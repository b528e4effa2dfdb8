#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "oubli/audit/alignment.h"
#include "oubli/forget/calibration.h"

namespace oubli {

// Of samples as arrays: of all, or of a choice spread over the data where the logits of all would
// take long; those of classes to be forgotten first.
[[nodiscard]] Confusion confusion_of(const HeadView& head, const CalibrationData& data,
                                     std::span<const std::size_t> forget);

// How they lean, for each of the classes to be forgotten.
[[nodiscard]] std::vector<Leaning> leanings_of(const HeadView& head, const CalibrationData& data,
                                               std::span<const std::size_t> forget);

}  // namespace oubli
