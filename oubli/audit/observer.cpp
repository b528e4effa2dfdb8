#include "oubli/audit/observer.h"

#include <algorithm>

#include "oubli/base/largest.h"

namespace oubli {

void observe(Observer observer, MatrixView<float> logits) {
  if (observer == Observer::logits) return;
  for (std::size_t i = 0; i < logits.rows(); ++i) {
    const std::span<float> row = logits.row(i);
    if (observer == Observer::probabilities) {
      double sum = 0;
      for (const float value : row) sum += static_cast<double>(value);
      const double mean = sum / static_cast<double>(row.size());
      for (float& value : row) value = static_cast<float>(static_cast<double>(value) - mean);
    } else {
      const std::size_t top = place_of_largest(row);
      std::ranges::fill(row, 0.0F);
      row[top] = 1;
    }
  }
}

}  // namespace oubli
