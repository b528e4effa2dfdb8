#include "oubli/cli/scheduled.h"

#include <fmt/format.h>

#include "oubli/base/interrupt.h"
#include "oubli/base/memory.h"
#include "oubli/base/workers.h"
#include "oubli/cli/terminal.h"

namespace oubli::cli {

void on_scheduler(unsigned jobs,
                  const std::function<void(Scheduler&, const std::stop_token&)>& work) {
  keep_freed_memory();
  const std::stop_token stop = stop_on_interrupt();
  const bool many = started_by_mpi();
  const unsigned threads = jobs != 0 ? jobs : many ? 1 : available_cores();
  const auto scheduler = many ? mpi_scheduler(threads, stop) : thread_scheduler(threads, stop);
  try {
    work(*scheduler, stop);
  } catch (const std::exception& error) {
    if (many) {
      const Failure failure = failure_of(error);
      say_error(fmt::format("{}: {}", scheduler->name(), failure.message));
      scheduler->abort(static_cast<int>(failure.code));
    }
    throw;
  }
}

}  // namespace oubli::cli
