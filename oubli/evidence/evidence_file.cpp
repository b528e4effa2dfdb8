#include "oubli/evidence/evidence_file.h"

#include "oubli/evidence/members.h"

namespace oubli {
namespace {

using Json = nlohmann::ordered_json;

Envelope envelope_in_bundle(const Json& bundle, const std::string& what) {
  require_only(bundle, {"mediaType", "verificationMaterial", "dsseEnvelope"}, what);
  if (const std::string type = text_member(bundle, "mediaType", what); type != kBundleType)
    fail(ErrorCode::bad_input, "{}: a bundle of type '{}'; wanted '{}'", what, type, kBundleType);
  const Json& material = member(bundle, "verificationMaterial", what);
  const std::string place = what + ", verificationMaterial";
  require_only(material, {"publicKey", "tlogEntries"}, place);
  const Json& key = member(material, "publicKey", place);
  require_only(key, {"hint"}, place);
  if (material.contains("tlogEntries") && !list_member(material, "tlogEntries", place).empty())
    fail(ErrorCode::bad_input,
         "{}: has entries of a transparency log, which this program cannot check; use cosign",
         place);
  Envelope envelope = envelope_of(member(bundle, "dsseEnvelope", what), what);
  if (envelope.signatures.size() != 1)
    fail(ErrorCode::bad_input, "{}: {} signatures; a bundle has one", what,
         envelope.signatures.size());
  if (const std::string hint = text_member(key, "hint", place);
      hint != envelope.signatures.front().key_id)
    fail(ErrorCode::bad_input, "{}: the hint '{}' is not the signature's key id '{}'", place, hint,
         envelope.signatures.front().key_id);
  return envelope;
}

std::optional<Envelope> envelope_in(std::string_view text, const std::string& what) {
  if (!text.starts_with('{')) fail(ErrorCode::bad_input, "{}: no JSON object", what);
  const Json json = parse_json(text, what);
  if (json.contains("payloadType") || json.contains("payload")) return envelope_of(json, what);
  if (json.contains("mediaType") || json.contains("dsseEnvelope"))
    return envelope_in_bundle(json, what);
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<Envelope>> parse_evidence(std::string_view text,
                                                    const std::string& what) {
  if (text.size() > kEvidenceLimit)
    fail(ErrorCode::bad_input, "{}: {} bytes; wanted at most {}", what, text.size(),
         kEvidenceLimit);
  if (text.ends_with('\n')) text.remove_suffix(1);
  std::vector<Envelope> envelopes;
  // An object that ends on the first line is the first of several; one that does not is alone.
  const std::size_t first_end = text.find('\n');
  if (first_end == std::string_view::npos || !text.substr(0, first_end).ends_with('}')) {
    auto alone = envelope_in(text, what);
    if (!alone) return std::nullopt;
    envelopes.push_back(std::move(*alone));
    return envelopes;
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::string place = fmt::format("{}, line {}", what, envelopes.size() + 1);
    if (envelopes.size() == kMostEnvelopes)
      fail(ErrorCode::bad_input, "{}: more than {} envelopes", what, kMostEnvelopes);
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    auto next = envelope_in(text.substr(begin, end - begin), place);
    if (!next) fail(ErrorCode::bad_input, "{}: wanted an envelope", place);
    envelopes.push_back(std::move(*next));
    begin = end + 1;
  }
  return envelopes;
}

std::string envelope_line(const Envelope& envelope) {
  return to_text(envelope_json(envelope), -1) + "\n";
}

std::string bundle_text(const Envelope& envelope) {
  if (envelope.signatures.size() != 1)
    fail(ErrorCode::usage, "a bundle holds exactly one signature, not {}",
         envelope.signatures.size());
  const Json bundle{{"mediaType", kBundleType},
                    {"verificationMaterial",
                     {{"publicKey", {{"hint", envelope.signatures.front().key_id}}},
                      {"tlogEntries", Json::array()}}},
                    {"dsseEnvelope", envelope_json(envelope)}};
  return to_text(bundle, -1) + "\n";
}

}  // namespace oubli
