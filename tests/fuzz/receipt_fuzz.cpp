#include <array>
#include <nlohmann/json.hpp>

#include "oubli/array/npz.h"
#include "oubli/forget/receipt.h"
#include "oubli/forget/signature.h"
#include "oubli/forget/verify.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace oubli;

std::unique_ptr<ModelFile> small_model(const std::filesystem::path& path,
                                       const Matrix<double>& weights) {
  AtomicFile out(path);
  NpzWriter writer(out);
  writer.add("W", to_tensor(MatrixView<const double>(weights)).view(""));
  writer.finish();
  out.commit();
  return ModelFile::open(path, {.transposed = false});
}

StoredMeans small_means() {
  const Matrix<double> rows(4, 2, {0, -1, 0.5, 2, 1, -1, 1.5, 0});
  const std::array<std::uint32_t, 4> labels{0, 1, 2, 3};
  ClassMeans means(4, 2);
  means.add(MatrixView<const double>(rows), labels);
  return store_means(Space::features, means, {}, "");
}

}  // namespace

// Verification of a receipt that anybody may have sent, against a model and its original.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Scratch scratch;
  static const auto before =
      small_model(scratch.path() / "old.npz", Matrix<double>(4, 2, {1, 0, 0, 1, 1, 1, 2, 0}));
  static const auto after =
      small_model(scratch.path() / "new.npz", Matrix<double>(3, 2, {0, 1, 1, 1, 2, 0}));
  static const ForgetInputs original{.model = before.get(), .means = small_means()};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::may_refuse([&] {
    const auto receipt = parse_receipt(text, "fuzz");
    VerifyInputs inputs;
    inputs.model = after.get();
    inputs.public_key = std::string(64, '0');
    inputs.original = &original;
    (void)verify_receipt(receipt, inputs);
  });
  return 0;
}
