#include "oubli/data/load.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace oubli;
  static const fuzz::Scratch scratch;
  std::filesystem::create_directory(scratch.path() / "s1");
  (void)scratch.put("s1/1.pgm", {data, size});
  fuzz::may_refuse([&] {
    const ImageSet set = load_pgm_folder(scratch.path());
    if (set.pixels.size() != set.size() * set.image_size()) std::abort();
  });
  return 0;
}
