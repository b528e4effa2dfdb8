#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/rivals/rival.h"

namespace oubli {

// Rivals that project the forgotten class out of what layers are given.

// [Kodge, Saha and Roy, "Deep unlearning: fast and efficient gradient-free class forgetting", TMLR
// 2024]: the inputs of each layer span a space of retained samples and one of forgotten ones;
// directions count by their share s of the variance, as alpha s / ((alpha - 1) s + 1). The layer
// is then given x - M_f x + M_f M_r x. As published, alpha_f is 3, and alpha_r of 10, 30, 100, 300
// and 1000 the one with the largest accuracy on retained times error on forgotten samples.
[[nodiscard]] Unlearned kodge_roy(const RivalInput& input);
// M: sum over directions u of the samples' (rows') second moments of their weight times u u^T.
[[nodiscard]] Matrix<double> weighted_space(MatrixView<const double> samples, double alpha);

// LEACE [Belrose et al., "LEACE: perfect linear concept erasure in closed form", NeurIPS 2023,
// theorem 4.3] of "is of a forgotten class", on the features: the smallest change after which no
// linear classifier does better than a constant. Then the outputs go.
[[nodiscard]] Unlearned leace(const RivalInput& input);
// x -> x - C (x - mean), features as rows; C is features x features.
struct Eraser {
  Matrix<double> c;
  std::vector<double> mean;
};
// concepts: samples x concepts.
[[nodiscard]] Eraser leace_eraser(MatrixView<const double> features,
                                  MatrixView<const double> concepts);

// POUR-P ["POUR: a provably optimal method for unlearning representations via neural collapse",
// 2025]: features lose their component along the forgotten class's row of the head, which is the
// class's mean where networks have collapsed. Then the outputs go.
[[nodiscard]] Unlearned pour_projection(const RivalInput& input);

}  // namespace oubli
