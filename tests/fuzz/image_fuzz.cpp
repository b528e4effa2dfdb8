#include "oubli/data/samples.h"
#include "tests/fuzz/fuzz.h"

// PNG, JPEG, BMP, PNM through stb_image. With less to spare than in earnest: executions would
// otherwise be spent on clearing megabytes.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace oubli;
  static const fuzz::Scratch scratch;
  const auto path = scratch.put("image", {data, size});
  fuzz::may_refuse([&] {
    const Sample sample = decode_image(path, std::uint64_t{1} << 18);
    if (sample.pixels.size() != sample.height * sample.width * sample.channels) std::abort();
  });
  return 0;
}
