#pragma once

#include <cstdint>
#include <span>

#include "oubli/array/matrix.h"
#include "oubli/base/workers.h"

namespace oubli {

// Features x points of points x features, so that what reads one feature after another reads whole
// cache lines of it. `order`: where each point comes from; empty: all as they are.
[[nodiscard]] Matrix<float> transposed(MatrixView<const float> x, Team& team,
                                       std::span<const std::uint32_t> order = {});

}  // namespace oubli
