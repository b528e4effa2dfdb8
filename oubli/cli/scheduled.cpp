#include "oubli/cli/scheduled.h"

#include <fmt/format.h>

#include <cstdio>

#include "oubli/base/error.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/workers.h"

namespace oubli::cli {

void on_scheduler(unsigned jobs,
                  const std::function<void(Scheduler&, const std::stop_token&)>& work) {
  const std::stop_token stop = stop_on_interrupt();
  const bool many = started_by_mpi();
  const unsigned threads = jobs != 0 ? jobs : many ? 1 : available_cores();
  const auto scheduler = many ? mpi_scheduler(threads, stop) : thread_scheduler(threads, stop);
  try {
    work(*scheduler, stop);
  } catch (const std::exception& error) {
    if (many) {
      const auto* ours = dynamic_cast<const Error*>(&error);
      fmt::print(stderr, "oubli: {}: {}\n", scheduler->name(), error.what());
      scheduler->abort(ours != nullptr ? ours->exit_code() : static_cast<int>(ErrorCode::bug));
    }
    throw;
  }
}

}  // namespace oubli::cli
