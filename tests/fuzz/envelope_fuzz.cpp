#include "tests/fuzz/evidence.h"

// Envelopes, one or several, with statements in them.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  oubli::fuzz::read_evidence({data, size}, oubli::envelope_line);
  return 0;
}
