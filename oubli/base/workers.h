#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>

namespace oubli {

// Cores this process may run on (its affinity, not the machine's size).
[[nodiscard]] unsigned available_cores();

// Runs task(i, worker) for every i in [0, count), each once, on `workers` threads (the caller is
// one of them), tasks taken in order as workers become free. `worker` is in [0, workers).
//
// If tasks throw, no further ones start, those under way finish, and the exception of the lowest
// failed index is rethrown. After a stop request no further task starts, and Error{interrupted} is
// thrown if any is left undone. Results must depend on i alone, never on `worker`.
void run_tasks(std::size_t count, unsigned workers,
               const std::function<void(std::size_t index, unsigned worker)>& task,
               const std::stop_token& stop = {});

}  // namespace oubli
