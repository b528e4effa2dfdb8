#pragma once

#include <string>

#include "oubli/forget/claims.h"
#include "oubli/forget/verify.h"

namespace oubli {

// Steps of verify for receipts of method curvature. The original is at hand. Each fails with an
// Error if one of the two files is no network that the method is for.

// All but the tensors that the method may change, which follow from the original and not from the
// receipt, is the original's byte for byte: putting the new layer and then the new head into the
// original gives the new file. `name`: what the model was called when it was made.
[[nodiscard]] VerifyStep curvature_rest(const Claims& claims, const VerifyInputs& inputs,
                                        const ForgetInputs& original, const std::string& name);
// The old layer before the head is gone, but for rows that the new one has, too.
[[nodiscard]] VerifyStep curvature_old_layer(const VerifyInputs& inputs,
                                             const ForgetInputs& original);
// With the images of the request, the same build and instructions must give the same bits. Others
// may round otherwise, and the guard decides by thresholds: then nothing is claimed.
[[nodiscard]] VerifyStep curvature_computed_anew(const Claims& claims, const VerifyInputs& inputs,
                                                 const ForgetInputs& original);

}  // namespace oubli
