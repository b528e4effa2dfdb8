#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "oubli/array/matrix.h"

namespace oubli {

// What features (samples x features of one network and layer) know about classes.

// Recall of class c in a linear probe of all k classes: least squares onto one-hot labels, ridge of
// 1e-3 of the mean eigenvalue of the features' covariance, fitted on one half of the samples and
// asked on the other, both ways; halves are drawn from `seed`. None if c has fewer than
// kReadoutSamples (recognition.h) samples, or all others together have.
[[nodiscard]] std::optional<double> probe_recall(MatrixView<const float> features,
                                                 std::span<const std::uint32_t> labels,
                                                 std::size_t classes, std::size_t c,
                                                 std::uint64_t seed);

// Linear CKA of two networks' features of the same samples [Kornblith et al. 2019]:
// |Y'X|^2 / (|X'X| |Y'Y|), columns centred, Frobenius norms. 1: equal up to rotation and scale;
// none if one of them is constant.
[[nodiscard]] std::optional<double> linear_cka(MatrixView<const float> x,
                                               MatrixView<const float> y);

}  // namespace oubli
