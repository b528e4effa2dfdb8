#pragma once

#include <optional>
#include <span>
#include <string>

#include "oubli/evidence/statement.h"

namespace oubli {

// A statement that can be relied on, parsed from the bytes that the signatures are about.
struct Attested {
  std::optional<Statement> statement;  // only if enough keys signed
  std::size_t signers = 0;             // how many of the given keys did
  std::string detail;                  // for people: by how many, or why not
};

// At least `threshold` (1 or more) different keys of `keys` must have signed. A signature by a key
// that was not given neither helps nor harms; one whose hint names another key than made it is
// refused, so that no part of an envelope can be changed unnoticed. Error{bad_input} if what enough
// keys signed is no statement.
[[nodiscard]] Attested attested(const Envelope& envelope, std::span<const PublicKey> keys,
                                std::size_t threshold, const std::string& what);

}  // namespace oubli
