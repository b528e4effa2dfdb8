#include "tests/fuzz/evidence.h"

// Sigstore bundles; an envelope by itself becomes one, if it has one signature.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  oubli::fuzz::read_evidence({data, size}, oubli::bundle_text);
  return 0;
}
