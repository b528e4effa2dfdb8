#include "oubli/cli/reproduce_methods.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "oubli/base/error.h"
#include "oubli/base/json.h"
#include "oubli/cli/scheduled.h"
#include "oubli/report/read_report.h"

namespace oubli::cli {

void reproduce_methods(const MethodsCommand& command) {
  check(command.plan);
  std::optional<MethodsResult> result;
  on_scheduler(command.jobs, [&](Scheduler& scheduler, const std::stop_token& stop) {
    result = run_methods(scheduler, command.folder, command.plan, stop);
  });
  if (!result) return;  // not the main process
  const TextTable table = to_table(*result);
  if (command.as_json)
    fmt::print("{}\n", to_text(nlohmann::json(*result), 1));
  else
    fmt::print("{}\n{}", explanation(*result), command.markdown ? table.markdown() : table.text());
  const std::array<std::filesystem::path, 1> inputs = {command.folder / "methods.json"};
  report::write_report(inputs, command.folder / "methods.html", /*replace=*/true);
  std::size_t failed = 0;
  for (const MethodRow& row : result->methods) failed += row.failed.size();
  if (failed > 0)
    fail(ErrorCode::some_failed,
         "{}: finished, but {} networks could not be unlearned; methods.json says why",
         command.folder.string(), failed);
}

}  // namespace oubli::cli
