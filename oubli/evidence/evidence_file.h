#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/evidence/dsse.h"

namespace oubli {

// Files of evidence. Whatever is not signed is fixed: no member twice, none unknown, nothing before
// or behind.
//
// NAME.intoto.jsonl: one envelope per line, in any order. A single envelope may be laid out over
// several lines.
// Sigstore bundle v0.3: one envelope with exactly one signature by a plain key, whose hint is the
// signature's key id, and no entry of a transparency log.
//
//     {"mediaType": ..., "verificationMaterial": {"publicKey": {"hint": ...}, "tlogEntries": []},
//      "dsseEnvelope": {...}}
inline constexpr char kBundleType[] = "application/vnd.dev.sigstore.bundle.v0.3+json";
inline constexpr std::size_t kMostEnvelopes = 1024;
inline constexpr std::size_t kEvidenceLimit = std::size_t{128} << 20;  // bytes of a file

// None if the text is a JSON object of some other kind, such as a receipt.
[[nodiscard]] std::optional<std::vector<Envelope>> parse_evidence(std::string_view text,
                                                                  const std::string& what);

// One line, with its end.
[[nodiscard]] std::string envelope_line(const Envelope& envelope);
// Error{usage} unless it has exactly one signature.
[[nodiscard]] std::string bundle_text(const Envelope& envelope);

}  // namespace oubli
