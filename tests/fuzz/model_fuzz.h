#pragma once

#include "oubli/filtration/filtration.h"
#include "oubli/model/model_file.h"
#include "tests/fuzz/fuzz.h"

namespace oubli::fuzz {

// Opens the file and takes class 1 out of it: either an Error, or the new file, which is opened
// again, has one class less and holds the head that was computed.
template <typename Model>
void forget_one(const std::filesystem::path& path, const std::filesystem::path& output) {
  may_refuse([&] {
    const Model model(path, HeadChoice{});
    touch(model.head().weights);
    (void)model.places_with_name("bee");
    if (const auto names = model.class_names(); names && names->size() != model.head().classes())
      std::abort();
    const std::vector<std::size_t> forget{1};
    const FiltrationPlan made = plan_filtration(model.head(), std::nullopt, forget,
                                                {.method = Method::naive, .custom = {}});
    const NewHead head = made.filter.apply(model.head());
    const StagedModel staged = model.stage(head, made.filter.split.retained, output, true);
    const TensorView& written = staged.written->head().weights;
    if (!std::equal(written.bytes.begin(), written.bytes.end(), head.weights.bytes.begin(),
                    head.weights.bytes.end()))
      std::abort();
  });
}

}  // namespace oubli::fuzz
