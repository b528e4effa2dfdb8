// The HDF5 reader and the Keras model on any bytes: either an Error, or what was read lies in the
// file and a model with one class less can be read again.
#include "oubli/hdf5/file.h"
#include "oubli/model/keras/model.h"
#include "tests/fuzz/model_fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace oubli;
  static const fuzz::Scratch scratch;
  fuzz::may_refuse([&] {
    const Hdf5File file(std::as_bytes(std::span(data, size)), "fuzz");
    for (const Hdf5Object& object : file.objects()) {
      if (object.dataset) fuzz::may_refuse([&] { fuzz::touch(file.tensor(object)); });
      for (const Hdf5Attribute& attribute : object.attributes)
        fuzz::may_refuse([&] {
          for (const std::string_view text : file.texts(attribute)) (void)file.offset_of(text);
        });
    }
  });
  const auto path = scratch.put("x.h5", {data, size});
  fuzz::forget_one<KerasModel>(path, scratch.path() / "y.h5");
  return 0;
}
