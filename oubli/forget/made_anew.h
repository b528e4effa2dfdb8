#pragma once

#include "oubli/forget/claims.h"
#include "oubli/forget/verify.h"

namespace oubli {

// The request of a receipt as it was carried out: with the solver that was chosen, and with the
// target and the seed that the verifier brought.
[[nodiscard]] ForgetRequest request_to_repeat(const Claims& claims, const VerifyInputs& inputs);

inline constexpr char kComputedAnew[] = "the new head, computed anew";
inline constexpr char kMadeAnew[] = "every file, made anew";

// Does the whole request again, in a folder of its own for temporary files: the files of the new
// model must come out with the digests that the receipt gives. The new head must have been found to
// be the computed one before.
[[nodiscard]] VerifyStep files_made_anew(const Claims& claims, const VerifyInputs& inputs,
                                         const ForgetInputs& original);

}  // namespace oubli
