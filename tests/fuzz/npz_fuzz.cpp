#include "oubli/array/npz.h"
#include "oubli/forget/stored_means.h"
#include "tests/fuzz/fuzz.h"

// Zip directory, entries, deflate, .npy inside, a rewrite of all of it, and the means file.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace oubli;
  static const fuzz::Scratch scratch;
  const auto path = scratch.put("x.npz", {data, size});
  fuzz::may_refuse([&] {
    const NpzFile file(path);
    for (const TensorInfo& info : file.tensors())
      fuzz::may_refuse([&] { fuzz::touch(file.read(info.name)); });
    AtomicFile out(scratch.path() / "y.npz");
    file.rewrite(out, {});
    // What was readable stays readable.
    if (NpzFile(out.temporary_path()).tensors().size() != file.tensors().size()) std::abort();
  });
  fuzz::may_refuse([&] { fuzz::touch(read_means(path).means); });
  return 0;
}
