#include <array>

#include "oubli/data/load.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace oubli;
  static const fuzz::Scratch scratch;
  const std::array batches{scratch.put("batch", {data, size})};
  fuzz::may_refuse([&] {
    const ImageSet set = load_cifar(batches);
    if (set.pixels.size() != set.size() * set.image_size()) std::abort();
  });
  return 0;
}
