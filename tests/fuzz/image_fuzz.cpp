#include "oubli/data/samples.h"
#include "tests/fuzz/fuzz.h"

// PNG, JPEG, BMP, PNM through stb_image.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace oubli;
  static const fuzz::Scratch scratch;
  const auto path = scratch.put("image", {data, size});
  fuzz::may_refuse([&] {
    const Sample sample = decode_image(path);
    if (sample.pixels.size() != sample.height * sample.width * sample.channels) std::abort();
  });
  return 0;
}
