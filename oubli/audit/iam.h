#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "oubli/array/matrix.h"

namespace oubli {

// How far an unlearned network's answers are from those of one retrained network towards those of
// the network before unlearning, after "interpolated approximate measurement" [Wang et al., USENIX
// Security 2025: IAM], which needs a single retrained network.
//
// Per image, the log-odds s of the retrained network's answer (the true class is gone) are
// interpolated between retrained (0) and original (1) at 100 places; at each place a Gumbel
// distribution, of the spread that the class's images have there, says how probable a smaller s
// than the unlearned network's is. The score is the mean of these probabilities, weighted by place.
// Signs are turned so that the original's s is the larger one. Larger: closer to the original.
// A retrained network is not at 0 but where another retrained one is: the floor.
//
// All three: images of one class x retained classes, logits. `original` is the network before
// unlearning without its forgotten columns. At least two images.
[[nodiscard]] double interpolated_measure(MatrixView<const float> unlearned,
                                          MatrixView<const float> original,
                                          MatrixView<const float> retrained);

// The same from the signals themselves, per image.
[[nodiscard]] std::vector<double> interpolated_scores(std::span<const double> unlearned,
                                                      std::span<const double> original,
                                                      std::span<const double> retrained);

}  // namespace oubli
