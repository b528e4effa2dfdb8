// The TensorFlow Lite reader on any bytes: see model_fuzz.h.
#include "oubli/model/tflite/model.h"
#include "tests/fuzz/model_fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace oubli;
  static const fuzz::Scratch scratch;
  const auto path = scratch.put("x.tflite", {data, size});
  fuzz::forget_one<TfliteModel>(path, scratch.path() / "y.tflite");
  return 0;
}
