#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "oubli/audit/kolmogorov_smirnov.h"

namespace oubli {

// Delete-a-group jackknife over models: for figures such as the KS statistic that are no means over
// models, and that resampling with replacement would bias. A figure is computed again without each
// group of models; how much it moves gives its standard error [Efron and Tibshirani, "An
// Introduction to the Bootstrap", chapter 11; two independent populations: the variances add].

// Models are left out in at most this many groups of neighbours per population.
inline constexpr std::size_t kJackknifeGroups = 10;

[[nodiscard]] std::size_t jackknife_groups(std::size_t models);
// The rows of one group's models, of `rows` that are stacked model by model.
[[nodiscard]] RowRange rows_of_group(std::size_t rows, std::size_t models, std::size_t group);

// Per population, the figure without each group.
using LeftOut = std::array<std::vector<double>, 2>;

// Half of the 95 % interval: Student's t times the standard error. Needs three groups of each.
[[nodiscard]] bool jackknife_possible(const LeftOut& left_out);
[[nodiscard]] double jackknife_half_width(const LeftOut& left_out);

}  // namespace oubli
