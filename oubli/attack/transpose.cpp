#include "oubli/attack/transpose.h"

#include <algorithm>

namespace oubli {

Matrix<float> transposed(MatrixView<const float> x, Team& team,
                         std::span<const std::uint32_t> order) {
  OUBLI_ASSERT(order.empty() || order.size() == x.rows());
  constexpr std::size_t kTile = 64;    // points whose rows stay in the first cache
  constexpr std::size_t kTask = 4096;  // points of a task
  auto columns = Matrix<float>::for_overwrite(x.cols(), x.rows());
  team.run((x.rows() + kTask - 1) / kTask, [&](std::size_t task, unsigned) {
    const std::size_t end = std::min(x.rows(), (task + 1) * kTask);
    for (std::size_t first = task * kTask; first < end; first += kTile)
      for (std::size_t f = 0; f < x.cols(); ++f)
        for (std::size_t i = first; i < std::min(end, first + kTile); ++i)
          columns.data()[f * x.rows() + i] =
              x.data()[(order.empty() ? i : order[i]) * x.cols() + f];
  });
  return columns;
}

}  // namespace oubli
