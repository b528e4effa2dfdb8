#pragma once

#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/rivals/rival.h"

namespace oubli {

// Selective synaptic dampening [Foster, Schoepf and Brintrup, "Fast machine unlearning without
// retraining through selective synaptic dampening", AAAI 2024, eq. 3 to 5]: a parameter's
// importance is the mean square of its gradient; where that for forgotten samples exceeds alpha
// times that for all, the parameter is multiplied by min(lambda all / forgotten, 1). With the
// authors' alpha 10 and with 3, lambda 1 both times.
[[nodiscard]] std::vector<Unlearned> selective_dampening(const RivalInput& input);

// The factors of one layer's parameters.
[[nodiscard]] Matrix<double> dampening_factors(MatrixView<const double> all,
                                               MatrixView<const double> forgotten, double alpha,
                                               double lambda);

// Per layer, units x (inputs + 1), the mean square of the gradient of cross-entropy.
[[nodiscard]] std::vector<Matrix<double>> importances(const nn::Network& network,
                                                      const ImageSet& set,
                                                      std::span<const std::size_t> images);

}  // namespace oubli
