#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oubli/onnx/shapes.h"

namespace oubli::onnx {

// The shape of what a standard operation makes, from what is known of its inputs; nothing if that
// does not tell. One rule per operation, in a table. Error{unfilterable} if its axes are computed.
[[nodiscard]] std::optional<Shapes::Shape> result_shape(const Shapes& known, const Model& model,
                                                        const Node& node);

// The integers that an operation makes of shapes (Shape, Gather, Concat, Slice, ...), each with the
// place it comes from; nothing if they are not known before the model runs.
[[nodiscard]] std::optional<std::vector<Shapes::Entry>> result_numbers(const Shapes& known,
                                                                       const Model& model,
                                                                       const Node& node);

// An axis as a place in `rank`; nothing if it lies outside.
[[nodiscard]] std::optional<std::size_t> place_of(std::int64_t axis, std::size_t rank);

}  // namespace oubli::onnx
