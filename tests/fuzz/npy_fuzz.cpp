#include "oubli/array/npy.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  oubli::fuzz::may_refuse(
      [&] { oubli::fuzz::touch(oubli::parse_npy(std::as_bytes(std::span(data, size)), "fuzz")); });
  return 0;
}
