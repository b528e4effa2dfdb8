#include "oubli/array/safetensors.h"
#include "oubli/model/model_file.h"
#include "tests/fuzz/fuzz.h"

// The header, every tensor, a rewrite, and the search for a head.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace oubli;
  static const fuzz::Scratch scratch;
  const auto path = scratch.put("x.safetensors", {data, size});
  fuzz::may_refuse([&] {
    const SafetensorsFile file(path);
    for (const TensorInfo& info : file.tensors())
      fuzz::may_refuse([&] { fuzz::touch(file.read(info.name)); });
    AtomicFile out(scratch.path() / "y.safetensors");
    file.rewrite(out, {});
    if (SafetensorsFile(out.temporary_path()).tensors().size() != file.tensors().size())
      std::abort();
  });
  fuzz::may_refuse([&] { fuzz::touch(ModelFile::open(path)->head().weights); });
  return 0;
}
