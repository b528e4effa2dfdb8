#include "oubli/evidence/attested.h"

#include <algorithm>

namespace oubli {

Attested attested(const Envelope& envelope, std::span<const PublicKey> keys, std::size_t threshold,
                  const std::string& what) {
  OUBLI_ASSERT(threshold > 0);
  const auto checks = check_signatures(envelope, keys);
  Attested result{.statement = {}, .signers = signers(checks, keys), .detail = {}};
  if (result.signers == 0) {
    result.detail = "no signature is by a given key: another signer, or changed";
  } else if (std::ranges::any_of(checks,
                                 [](const SignatureCheck& check) { return !check.hint_fits; })) {
    result.detail = "a signature names another key than the one that made it";
  } else if (result.signers < threshold) {
    result.detail =
        fmt::format("by {} of the given keys; wanted at least {}", result.signers, threshold);
  } else {
    result.statement = statement_in(envelope, what);
    result.detail = keys.size() == 1 && result.signers == 1
                        ? fmt::format("{}, by the given key", name_of(keys.front().type()))
                        : fmt::format("by {} of {} given keys", result.signers, keys.size());
  }
  return result;
}

}  // namespace oubli
