#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>

namespace oubli {

// What a new model is run on after the old one ran on everything: what else the old model made of
// the data follows from its features.
struct DataShape {
  std::size_t samples = 0, batch = 1, classes = 0;
  std::size_t kept_bytes = 0;  // for a sample, of what the old model made of it
};

// The first samples of the batches to be run again: a sixteenth of the samples, but 32 to 96, in
// whole batches, three of these at least, all if there are no more; fewer if kCheckedBytes would
// not hold what is kept of them. The data is cut into as many stretches, and of each that batch is
// taken that has the most classes which those before it do not have. `labels`: of all answers,
// sample by sample.
inline constexpr std::size_t kCheckedBytes = std::size_t{256} << 20;
[[nodiscard]] std::set<std::size_t> checked_batches(std::span<const std::uint32_t> labels,
                                                    const DataShape& data);

}  // namespace oubli
