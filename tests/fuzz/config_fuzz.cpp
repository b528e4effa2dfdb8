#include <nlohmann/json.hpp>

#include "oubli/base/file.h"
#include "oubli/base/names.h"
#include "oubli/experiment/run_folder.h"
#include "oubli/nn/spec.h"
#include "tests/fuzz/fuzz.h"

// run.json, network descriptions, class name files.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace oubli;
  static const fuzz::Scratch scratch;
  (void)scratch.put("run.json", {data, size});
  fuzz::may_refuse([&] { (void)RunFolder::open(scratch.path()); });
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_discarded()) fuzz::may_refuse([&] { (void)nn::network_from_json(json, "fuzz"); });
  fuzz::may_refuse([&] { (void)parse_class_names(text, size % 8, "fuzz"); });
  return 0;
}
