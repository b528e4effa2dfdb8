#include "oubli/data/load.h"
#include "tests/fuzz/fuzz.h"

// Byte 0: plain or .gz; bytes 1 and 2: where the labels begin.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace oubli;
  if (size < 3) return 0;
  static const fuzz::Scratch scratch;
  const std::string ending = data[0] % 2 == 0 ? "" : ".gz";
  const fuzz::Bytes rest(data + 3, size - 3);
  const std::size_t split = std::min<std::size_t>(rest.size(), data[1] + 256U * data[2]);
  const auto images = scratch.put("images" + ending, rest.first(split));
  const auto labels = scratch.put("labels" + ending, rest.subspan(split));
  fuzz::may_refuse([&] {
    const ImageSet set = load_idx(images, labels);
    if (set.pixels.size() != set.size() * set.image_size()) std::abort();
  });
  return 0;
}
