#pragma once

#include <vector>

#include "oubli/evidence/attested.h"
#include "oubli/evidence/evidence_file.h"
#include "tests/fuzz/fuzz.h"

namespace oubli::fuzz {

// Evidence that anybody may have sent, read as `verify` reads it. What was understood must be
// understood in the same way when it is written anew by `write`.
template <typename Write>
void read_evidence(Bytes bytes, Write write) {
  // The seeds are signed with this key [RFC 8032, section 7.1, test 1].
  static const std::vector<PublicKey> keys{
      *PublicKey::from_hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  may_refuse([&] {
    const auto envelopes = parse_evidence(text, "fuzz");
    if (!envelopes) return;
    for (const Envelope& envelope : *envelopes) {
      const auto again = parse_evidence(write(envelope), "again");
      if (!again || again->size() != 1 || again->front().payload != envelope.payload ||
          again->front().payload_type != envelope.payload_type ||
          again->front().signatures.size() != envelope.signatures.size())
        std::abort();
      const Attested found = attested(envelope, keys, 1, "fuzz");
      if (!found.statement || found.statement->predicate_type != kTestResultType) continue;
      (void)test_result_in(*found.statement, "fuzz");
    }
  });
  // Statements that nobody signed, too.
  may_refuse([&] {
    const Statement statement = statement_in({kInTotoPayload, std::string(text), {}}, "fuzz");
    (void)test_result_in(statement, "fuzz");
  });
}

}  // namespace oubli::fuzz
