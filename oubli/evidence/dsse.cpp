#include "oubli/evidence/dsse.h"

#include <algorithm>

#include "oubli/evidence/base64.h"
#include "oubli/evidence/members.h"

namespace oubli {
namespace {

using Json = nlohmann::ordered_json;

std::string decoded(const Json& object, const char* name, const std::string& what) {
  auto bytes = from_base64(text_member(object, name, what));
  if (!bytes) fail(ErrorCode::bad_input, "{}: '{}' is not padded base64", what, name);
  return std::move(*bytes);
}

}  // namespace

std::string pre_authentication_encoding(std::string_view type, std::string_view body) {
  return fmt::format("DSSEv1 {} {} {} {}", type.size(), type, body.size(), body);
}

void sign(Envelope& envelope, const PrivateKey& key) {
  envelope.signatures.push_back(
      {key.public_key().id(),
       key.sign(pre_authentication_encoding(envelope.payload_type, envelope.payload))});
}

Json envelope_json(const Envelope& envelope) {
  Json signatures = Json::array();
  for (const EnvelopeSignature& signature : envelope.signatures) {
    Json entry;
    if (!signature.key_id.empty()) entry["keyid"] = signature.key_id;
    entry["sig"] = to_base64(signature.value);
    signatures.push_back(std::move(entry));
  }
  return {{"payload", to_base64(envelope.payload)},
          {"payloadType", envelope.payload_type},
          {"signatures", std::move(signatures)}};
}

Envelope envelope_of(const Json& json, const std::string& what) {
  require_only(json, {"payload", "payloadType", "signatures"}, what);
  Envelope envelope{text_member(json, "payloadType", what), decoded(json, "payload", what), {}};
  if (envelope.payload_type.empty()) fail(ErrorCode::bad_input, "{}: 'payloadType' is empty", what);
  const Json& signatures = list_member(json, "signatures", what);
  if (signatures.empty() || signatures.size() > kMostSignatures)
    fail(ErrorCode::bad_input, "{}: {} signatures; wanted 1 to {}", what, signatures.size(),
         kMostSignatures);
  for (const Json& entry : signatures) {
    const std::string place = fmt::format("{}, signature {}", what, envelope.signatures.size() + 1);
    require_only(entry, {"keyid", "sig"}, place);
    envelope.signatures.push_back(
        {entry.contains("keyid") ? text_member(entry, "keyid", place) : std::string(),
         decoded(entry, "sig", place)});
    if (envelope.signatures.back().value.empty())
      fail(ErrorCode::bad_input, "{}: 'sig' is empty", place);
  }
  return envelope;
}

std::vector<SignatureCheck> check_signatures(const Envelope& envelope,
                                             std::span<const PublicKey> keys) {
  const std::string message = pre_authentication_encoding(envelope.payload_type, envelope.payload);
  std::vector<SignatureCheck> checks;
  for (const EnvelopeSignature& signature : envelope.signatures) {
    SignatureCheck check;
    for (std::size_t i = 0; i < keys.size() && !check.key; ++i)
      if (keys[i].verifies(message, signature.value)) check.key = i;
    if (check.key)
      check.hint_fits = signature.key_id.empty() || signature.key_id == keys[*check.key].id();
    checks.push_back(check);
  }
  return checks;
}

std::size_t signers(std::span<const SignatureCheck> checks, std::span<const PublicKey> keys) {
  std::vector<const PublicKey*> different;
  for (const SignatureCheck& check : checks) {
    if (!check.key) continue;
    const PublicKey& key = keys[*check.key];
    if (std::ranges::none_of(different, [&](const PublicKey* known) { return *known == key; }))
      different.push_back(&key);
  }
  return different.size();
}

}  // namespace oubli
