#include "oubli/base/workers.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "oubli/base/error.h"

namespace oubli {

unsigned available_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0)
    return static_cast<unsigned>(std::max(1, CPU_COUNT(&cores)));
  return std::max(1U, std::thread::hardware_concurrency());
}

void run_tasks(std::size_t count, unsigned workers,
               const std::function<void(std::size_t index, unsigned worker)>& task,
               const std::stop_token& stop) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;  // guards the two below
  std::size_t first_failure = count;
  std::exception_ptr failure;

  const auto work = [&](unsigned worker) {
    while (!failed.load() && !stop.stop_requested()) {
      const std::size_t index = next.fetch_add(1);
      if (index >= count) return;
      try {
        task(index, worker);
      } catch (...) {
        failed.store(true);
        const std::scoped_lock lock(mutex);
        if (index < first_failure) {
          first_failure = index;
          failure = std::current_exception();
        }
      }
    }
  };

  const auto threads = static_cast<unsigned>(
      std::min<std::size_t>(std::max(1U, workers), std::max<std::size_t>(1, count)));
  {
    std::vector<std::jthread> others;
    others.reserve(threads - 1);
    for (unsigned worker = 1; worker < threads; ++worker) others.emplace_back(work, worker);
    work(0);
  }  // joins
  if (failure) std::rethrow_exception(failure);
  if (next.load() < count) throw Error(ErrorCode::interrupted, "interrupted");
}

}  // namespace oubli
