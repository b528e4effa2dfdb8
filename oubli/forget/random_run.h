#pragma once

#include <stop_token>

#include "oubli/filtration/filter.h"
#include "oubli/forget/run_check.h"
#include "oubli/model/model_file.h"

namespace oubli {

// Runs both models on random numbers of the shape that the old one's inputs have, where there is an
// engine, and compares; in a process of its own, which may take neither long nor much memory.
// Error{self_check} if the new model does not compute what it should.
[[nodiscard]] RunOutcome run_on_random_inputs(const ModelFile& old_model,
                                              const ModelFile& new_model, const HeadFilter& filter,
                                              const HeadRounding& rounding,
                                              const std::stop_token& stop = {});

}  // namespace oubli
