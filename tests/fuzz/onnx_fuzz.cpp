// The ONNX reader, head finder and rewriter on any bytes: either an Error, or what was read is
// written back byte for byte and a rewritten model can be read again with the new head in it.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "oubli/base/error.h"
#include "oubli/filtration/filtration.h"
#include "oubli/model/onnx/head.h"
#include "oubli/model/onnx/model.h"
#include "oubli/model/onnx/names.h"
#include "oubli/model/onnx/rewrite.h"
#include "oubli/onnx/model.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace oubli;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    onnx::Model model(bytes, "fuzz", "/nonexistent");
    const std::vector<std::byte> same = onnx::Message::parse(bytes, "fuzz").encode();
    if (same.size() != bytes.size() || !std::equal(same.begin(), same.end(), bytes.begin()))
      std::abort();
    for (const onnx::TensorInfo& tensor : model.graph().initializers) {
      try {
        (void)model.load(tensor);
      } catch (const Error&) {
      }
    }
    (void)places_with_name(bytes, "fuzz", "bee");
    const OnnxHead head = find_onnx_head(model);
    validate(head.view());
    head.require_enough_classes(model);
    fuzz::may_refuse([&] {
      static const fuzz::Scratch scratch;
      const auto names = OnnxModel(scratch.put("x.onnx", {data, size})).class_names();
      if (names && names->size() != head.classes()) std::abort();
    });
    const std::vector<std::size_t> forget{1};
    const NewHead new_head =
        plan_filtration(head.view(), std::nullopt, forget, {.method = Method::naive})
            .filter.apply(head.view());
    const std::vector<std::byte> rewritten =
        rewrite_onnx(model, head, new_head, forget, "new.onnx").message.encode();
    const onnx::Model read(rewritten, "rewritten", "/nonexistent");
    const OnnxHead found = find_onnx_head(read);
    if (found.classes() + 1 != head.classes()) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
