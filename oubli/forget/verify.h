#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "oubli/base/error.h"
#include "oubli/forget/forget.h"

namespace oubli {

// One thing that a verifier looked at.
struct VerifyStep {
  enum class State { passed, failed, not_made };
  std::string what;
  State state = State::not_made;
  std::string detail;
};

// What the verifier has at hand; the more, the more is checked.
struct VerifyInputs {
  const ModelFile* model = nullptr;       // the new model
  std::optional<std::string> public_key;  // hexadecimal
  // The receipt comes from a statement in an envelope: whether that was found to be signed.
  std::optional<bool> attested;
  bool make_files = false;                        // the whole request again, see made_anew.h
  const ForgetInputs* original = nullptr;         // the old model with its means or data
  std::optional<Error> problem;                   // why it, or its means or data, is not there
  std::optional<Matrix<double>> custom_target;    // for method custom
  std::optional<std::uint64_t> seed;              // if the receipt holds a digest of it only
  std::optional<std::filesystem::path> previous;  // the receipt before this one
  std::stop_token stop;                           // Error{interrupted} on request
};

// Signature, digests, chain, and, with the original at hand, the new head computed anew: filtration
// is deterministic, so the same build must give the same bits, another one at most one unit in the
// last place of difference. Where the class means come from running the model, and another engine
// ran it then, or the same with other instructions, what its rounding explains may differ. A step
// that cannot be finished has failed, or is not made where something is missing; Error{bad_input}
// only if the receipt itself is damaged.
[[nodiscard]] std::vector<VerifyStep> verify_receipt(const nlohmann::ordered_json& receipt,
                                                     const VerifyInputs& inputs);

// The largest distance between elements at the same place, in units of the last place of their
// type; none if types or shapes differ.
[[nodiscard]] std::optional<std::uint64_t> units_apart(const TensorView& a, const TensorView& b);

// The largest difference between numbers at the same place of two heads of one shape, over the
// largest magnitude in their row, the class's bias included. Infinite if one is not finite.
[[nodiscard]] double relative_difference(const HeadView& a, const HeadView& b);

}  // namespace oubli
