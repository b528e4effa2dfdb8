#include <array>

#include "oubli/report/page.h"
#include "oubli/report/read_report.h"
#include "tests/fuzz/fuzz.h"

// results.json, audits, receipts and inversions as `oubli report` reads them, and the page.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace oubli;
  static const fuzz::Scratch scratch;
  const std::array inputs{scratch.put("any.json", {data, size})};
  fuzz::may_refuse([&] { (void)report::page(report::read_report(inputs)); });
  return 0;
}
