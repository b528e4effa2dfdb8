#pragma once

#include <cstddef>
#include <span>

#include "oubli/filtration/filter.h"
#include "oubli/model/onnx/head.h"

namespace oubli {

namespace onnx {
class Editor;
}

// Puts `new_head` in the place of a head in whole numbers. Rows that stay what they are keep their
// numbers; others are put on a grid of fresh scales (model/quantised_head.h). A bias in floats is
// left to the caller. Error{unfilterable} if the file has no room for such a head.
void replace_integers(onnx::Editor& edit, const OnnxHead& head, const NewHead& new_head,
                      std::span<const std::size_t> retained);

// Puts a layer of floats in the place of one that multiplies whole numbers, and its bias unless
// that is one of floats already. It reads what the integers stood for.
void replace_products(onnx::Editor& edit, const OnnxHead& head, const NewHead& new_head);

// Leaves out the rounding of the logits to 8 bits behind a layer of floats.
void drop_rounding(onnx::Editor& edit, const OnnxHead& head);

}  // namespace oubli
