#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/base/random.h"

namespace oubli {

// What an attack model is: a binary classifier that learns from rows labelled 0 or 1 and gives one
// label per row.
//
//   fit      `x`: points x features, finite; `y`: 0 or 1 per point, at least one point. Both labels
//            need not occur: with one label the model always answers that one. Constant features
//            and duplicate points are allowed. Random choices come from `random` alone, and the
//            result does not depend on Options::workers.
//   predict  deterministic; same number of features.
//   score    a number per row, the larger the surer of label 1; positive exactly where `predict`
//            says 1.
//
// To add one: write the class with these three functions, check it with
// static_assert(AttackModel<...>), and give it a name in attack.h.
template <typename M>
concept AttackModel = requires(const M model, MatrixView<const float> x,
                               std::span<const std::uint8_t> y, const typename M::Options& options,
                               RandomStream& random) {
  { M::fit(x, y, options, random) } -> std::same_as<M>;
  { model.predict(x) } -> std::same_as<std::vector<std::uint8_t>>;
  { model.score(x) } -> std::same_as<std::vector<double>>;
};

// What `predict` says of rows with these scores.
[[nodiscard]] std::vector<std::uint8_t> labels_of(std::span<const double> scores);

}  // namespace oubli
