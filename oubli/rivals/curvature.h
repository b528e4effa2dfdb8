#pragma once

#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/rivals/rival.h"

namespace oubli {

// A Newton step away from what the forgotten class asked of the layer before the head, as
// "certified removal" takes it [Guo et al., ICML 2020], with the curvature of retained data as a
// Kronecker product [Martens and Grosse, "Optimizing neural networks with Kronecker-factored
// approximate curvature", ICML 2015; of a convolution, Grosse and Martens, "A Kronecker-factored
// approximate Fisher matrix for convolution layers", ICML 2016]; then the head is fitted by ridge
// regression to the old logits of retained data, so that it reads the new features. Guarded: the
// step is scaled until the old head gives the class .2 to .5 on its own samples, and shrunk while
// accuracy on retained ones falls by over .3 points.
[[nodiscard]] std::vector<Unlearned> curvature_step(const RivalInput& input);

// The guarded step alone, and what the guard saw on its sample of the data.
struct GuardedStep {
  nn::Network network;  // one output per retained class
  double scale = 0;     // of the step
  // What the old head gives forgotten samples' own classes on the mean, before and after.
  double own_probability_before = 0, own_probability = 0;
  // On retained samples, of the old network without the forgotten outputs, and of the new one.
  double accuracy_before = 0, accuracy = 0;
  std::size_t retained = 0, forgotten = 0;  // samples
};
[[nodiscard]] GuardedStep guarded_curvature_step(const RivalInput& input);
// What the guard wants.
inline constexpr double kLeastOwnProbability = 0.2, kMostOwnProbability = 0.5;
inline constexpr double kGuardedAccuracyLoss = 0.003;

// The solution D (outputs x inputs) of G D A + d mean(g) mean(a) D = gradient, a and g being the
// eigenvalues of A and G: Newton's step for the curvature A (x) G, damped.
[[nodiscard]] Matrix<double> kronecker_step(MatrixView<const double> a, MatrixView<const double> g,
                                            MatrixView<const double> gradient, double damping);

// The head (outputs x (features + 1), bias last) that fits targets = features W^T + b with a
// penalty on W of `share` times the mean eigenvalue of the features' covariance.
[[nodiscard]] Matrix<double> ridge_head(MatrixView<const double> features,
                                        MatrixView<const double> targets, double share);

}  // namespace oubli
