#include "oubli/audit/observer.h"

#include <algorithm>

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
      const auto top = std::ranges::max_element(row) - row.begin();
      std::ranges::fill(row, 0.0F);
      row[static_cast<std::size_t>(top)] = 1;
    }
  }
}

}  // namespace oubli
