#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace oubli {

// Many figures judged at once. Whoever looks at the largest of thirty attacks has thirty chances to
// be fooled; these intervals hold for all of them together, with probability 95 %.

// A figure that is a sum of means over independent groups of networks (and a constant): an
// advantage is mean(seen shares) + mean(unseen shares) - 1.
struct GroupedFigure {
  double value = 0;
  std::vector<std::span<const double>> groups;  // per group, a number for each network
  double least_variance = 0;  // of `value`: networks that happen to agree do not make it certain
};

struct SimultaneousBounds {
  double critical = 0;             // value -+ critical * standard error
  std::vector<double> error;       // standard error of each figure
  std::vector<double> half_width;  // of each figure's interval
};

// The largest of many t statistics, at 95 %: the correlation of the figures is that of the networks
// they share, drawn by multiplying each network's deviation with a normal number ("max-t"; Hothorn,
// Bretz, Westfall, "Simultaneous inference in general parametric models", 2008, with the
// multiplier bootstrap of Chernozhukov, Chetverikov, Kato 2013 for the correlation). All groups of
// one position hold the same networks in every figure, in the same order, at least two of them.
[[nodiscard]] SimultaneousBounds simultaneous_bounds(std::span<const GroupedFigure> figures,
                                                     std::uint64_t seed);

}  // namespace oubli
