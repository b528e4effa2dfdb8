#include <nlohmann/json.hpp>

#include "oubli/array/npz.h"
#include "oubli/forget/receipt.h"
#include "oubli/forget/signature.h"
#include "oubli/forget/verify.h"
#include "tests/fuzz/fuzz.h"

namespace {

std::unique_ptr<oubli::ModelFile> small_model(const oubli::fuzz::Scratch& scratch) {
  using namespace oubli;
  Matrix<double> weights(3, 2, {1, 0, 0, 1, 1, 1});
  AtomicFile out(scratch.path() / "model.npz");
  NpzWriter writer(out);
  writer.add("W", to_tensor(MatrixView<const double>(weights)).view(""));
  writer.finish();
  out.commit();
  return ModelFile::open(scratch.path() / "model.npz");
}

}  // namespace

// Verification of a receipt that anybody may have sent, against a model and its original.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace oubli;
  static const fuzz::Scratch scratch;
  static const auto model = small_model(scratch);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::may_refuse([&] {
    const auto receipt = parse_receipt(text, "fuzz");
    const ForgetInputs original{.model = model.get()};
    VerifyInputs inputs;
    inputs.model = model.get();
    inputs.public_key = std::string(64, '0');
    inputs.original = &original;
    (void)verify_receipt(receipt, inputs);
  });
  return 0;
}
