// config.json, an index of shards, preprocessor_config.json and Keras configurations: either an
// Error, or one class less in a document that can be read again.
#include "oubli/data/preparation_config.h"
#include "oubli/model/huggingface/config.h"
#include "oubli/model/keras/config.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace oubli;
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::may_refuse([&] {
    const FolderConfig config(text, "fuzz");
    if (config.classes().value_or(0) < 2 || config.classes() > 1000) return;
    std::vector<std::size_t> retained;
    for (std::size_t j = 0; j < *config.classes(); ++j)
      if (j != 1) retained.push_back(j);
    const FolderConfig less(config.without(retained), "less");
    if (less.classes() != retained.size() && config.names().size() > 2) std::abort();
    if (!config.names().empty() && less.names().size() != retained.size() && retained.size() > 1)
      std::abort();
  });
  fuzz::may_refuse([&] { (void)shrunk_index(text, 4, 1, "fuzz"); });
  fuzz::may_refuse([&] { (void)parse_preparation_config(text, "fuzz"); });
  fuzz::may_refuse([&] {
    const KerasHead head = find_keras_head(text, "fuzz");
    for (const JsonPlace& place : head.counts)
      if (place.end > text.size() || place.in(text) != std::to_string(head.units)) std::abort();
  });
  return 0;
}
