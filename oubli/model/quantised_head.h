#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "oubli/filtration/filter.h"
#include "oubli/filtration/head.h"
#include "oubli/model/model_file.h"

namespace oubli {

// How a file holds a head in whole numbers: w = scale q, where zero points are already taken off.
struct HeadGrid {
  std::int32_t levels = 127;    // the largest |q| of a weight
  bool scale_per_class = true;  // else one for all
  // Biases are floats; multiples of `bias_factor` times the scale of the class's weights; or
  // multiples of one scale of their own, at most 127.
  enum class Bias { floats, products, own_scale } bias = Bias::floats;
  double bias_factor = 1;
  double old_step = 0;  // the largest scale of the old head
};

// The scale of a bias that is stored as multiples of products, a float32 like its factors.
[[nodiscard]] double bias_step(double bias_factor, double weight_scale);

// A head in whole numbers.
struct QuantisedHead {
  std::vector<std::int32_t> weights;  // in the layout of the head
  std::vector<float> scales;          // one per class, all alike if there is one for all
  std::vector<std::int32_t> bias;     // empty: none, or floats
  std::vector<double> bias_scales;    // one per class
  NewHead stands_for;
};

// The nearest head on a grid of fresh scales. Each is the smallest of 16 significant bits with
// which no weight exceeds `levels`, so that scale q is a float32 without rounding, and the head
// that this stands for gives the same numbers again. Error{unfilterable} naming `what` if a bias
// has no place on the grid.
[[nodiscard]] QuantisedHead quantise(const NewHead& head, bool transposed, const HeadGrid& grid,
                                     const std::string& what);

// The distances between neighbours on the grid, in logits, for the check of the new head.
[[nodiscard]] StoredHead as_stored(QuantisedHead head, double weight_scale, const HeadGrid& grid);

// Whether `head` is the rows of `old_head` that are left, bit for bit: then whole numbers stay what
// they are.
[[nodiscard]] bool keeps_rows(const HeadView& old_head, const NewHead& head,
                              std::span<const std::size_t> retained);

}  // namespace oubli
