#pragma once

#include <functional>
#include <stop_token>

#include "oubli/experiment/scheduler.h"

namespace oubli::cli {

// Calls `work` with the threads of this process, or with those of an MPI job's ranks if it is one;
// jobs 0 is all cores, or one thread per rank. If this process of a job fails, the job ends.
void on_scheduler(unsigned jobs,
                  const std::function<void(Scheduler&, const std::stop_token&)>& work);

}  // namespace oubli::cli
