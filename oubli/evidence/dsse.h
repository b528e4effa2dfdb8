#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/evidence/keys.h"

namespace oubli {

// DSSE, the signing envelope of in-toto: bytes are signed together with what they are. What is
// shown or acted on is parsed from Envelope::payload, the very bytes that were verified.
//
//     {"payload": base64, "payloadType": text, "signatures": [{"keyid": text, "sig": base64}, ...]}
struct EnvelopeSignature {
  std::string key_id;  // a hint that nothing signs; may be empty
  std::string value;   // bytes
};

struct Envelope {
  std::string payload_type;
  std::string payload;  // bytes
  std::vector<EnvelopeSignature> signatures;
};

// What is signed: "DSSEv1" SP LEN(type) SP type SP LEN(body) SP body.
[[nodiscard]] std::string pre_authentication_encoding(std::string_view type, std::string_view body);

// Adds a signature with the key's id.
void sign(Envelope& envelope, const PrivateKey& key);

[[nodiscard]] nlohmann::ordered_json envelope_json(const Envelope& envelope);
// Error{bad_input} naming `what` and the member that is missing, of another type, or unknown: there
// is no room for what nothing signs. At least one signature, at most kMostSignatures.
inline constexpr std::size_t kMostSignatures = 64;
[[nodiscard]] Envelope envelope_of(const nlohmann::ordered_json& json, const std::string& what);

// Which of `keys` made each signature, if any did; and whether the hint, if there is one, names it.
struct SignatureCheck {
  std::optional<std::size_t> key;
  bool hint_fits = true;
};
[[nodiscard]] std::vector<SignatureCheck> check_signatures(const Envelope& envelope,
                                                           std::span<const PublicKey> keys);

// How many different keys of `keys` signed: a key that signs twice, or is given twice, counts once.
[[nodiscard]] std::size_t signers(std::span<const SignatureCheck> checks,
                                  std::span<const PublicKey> keys);

}  // namespace oubli
