#pragma once

#include <vector>

#include "oubli/experiment/results.h"

namespace oubli {

// The tables of `results` from its other parts: every table of the paper that this experiment
// fills, then what the paper does not have.
[[nodiscard]] std::vector<ResultTable> make_tables(const Results& results);

}  // namespace oubli
