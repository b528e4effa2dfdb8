// Pickles of any bytes: what was read is written back byte for byte, and a model that is found in
// it, as PyTorch or scikit-learn, can be written without a class and read again.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "oubli/array/packed_stream.h"
#include "oubli/array/zip_writer.h"
#include "oubli/filtration/filtration.h"
#include "oubli/model/sklearn/model.h"
#include "oubli/model/torch/legacy_archive.h"
#include "oubli/model/torch/model.h"
#include "oubli/pickle/calls.h"
#include "oubli/pickle/edits.h"
#include "oubli/pickle/numpy.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace oubli;

void forget_a_class(const ModelFile& model, const std::filesystem::path& out) {
  fuzz::touch(model.head().weights);
  const auto names = model.class_names();
  if (names && names->size() != model.head().classes()) std::abort();
  (void)model.findings();
  (void)model.places_with_name("bee");
  const std::vector<std::size_t> forget{1};
  const NewHead head =
      plan_filtration(model.head(), std::nullopt, forget, {.method = Method::naive})
          .filter.apply(model.head());
  const auto retained = split_for_deletion(model.head().classes(), forget).retained;
  const StagedModel staged = model.stage(head, retained, out, true);
  if (staged.written->head().classes() + 1 != model.head().classes()) std::abort();
}

// The pickle beside storages of 5 x 8 and 5 numbers by turns, as the seeds name them.
std::filesystem::path as_archive(const fuzz::Scratch& scratch, fuzz::Bytes bytes) {
  static const std::array<std::byte, 160> numbers = [] {
    std::array<std::byte, 160> made{};
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<std::byte>(i % 60);
    return made;
  }();
  const auto path = scratch.path() / "x.pth";
  AtomicFile out(path);
  ZipWriter writer(out);
  writer.add_aligned("x/data.pkl", std::vector{ZipPiece{std::as_bytes(bytes)}});
  for (int i = 0; i < 6; ++i)
    writer.add_aligned("x/data/" + std::to_string(i),
                       std::vector{ZipPiece{std::span(numbers).first(i % 2 == 0 ? 160 : 20)}});
  writer.add_aligned("x/version", std::vector{ZipPiece{as_bytes("3\n")}});
  writer.finish({}, true);
  out.commit();
  return path;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Scratch scratch;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  bool parsed = packing_of(as_text(bytes)) != Packing::none;
  fuzz::may_refuse([&] {
    const pickle::Pickle pickle(bytes, "fuzz", 0, pickle::joblib_stream);
    const auto same = pickle::Edits(pickle).encode();
    if (same.size() != pickle.end() || !std::equal(same.begin(), same.end(), bytes.begin()))
      std::abort();
    (void)pickle::foreign_calls(pickle);
    parsed = true;
  });
  if (!parsed) return 0;
  fuzz::may_refuse([&] {
    forget_a_class(TorchModel(as_archive(scratch, {data, size}), {}), scratch.path() / "y.pth");
  });
  const auto path = scratch.put("x.pkl", {data, size});
  fuzz::may_refuse([&] { forget_a_class(SklearnModel(path, {}), scratch.path() / "y.pkl"); });
  if (as_text(bytes).starts_with(torch::kLegacyStart))
    fuzz::may_refuse([&] { forget_a_class(TorchModel(path, {}), scratch.path() / "z.pth"); });
  return 0;
}
