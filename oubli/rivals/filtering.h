#pragma once

#include <vector>

#include "oubli/rivals/rival.h"

namespace oubli {

// Rivals that give the network another head and leave its features alone.

// The methods of oubli/filtration that `forget` offers, from class means (and samples) of training
// data: naive, normalization, and explained.
[[nodiscard]] std::vector<Rival> filtering_rivals();

// A fresh head, trained as long as the recipe says on the frozen features of retained data.
[[nodiscard]] Unlearned refit(const RivalInput& input);

}  // namespace oubli
