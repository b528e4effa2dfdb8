#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <stop_token>
#include <thread>
#include <vector>

namespace oubli {

// Cores this process may run on (its affinity, not the machine's size).
[[nodiscard]] unsigned available_cores();

// The most threads that a team has, however many are asked for: more than there are cores would
// only take turns, and be woken for it thousands of times a second.
[[nodiscard]] unsigned largest_team();

// Runs task(i, worker) for every i in [0, count), each once, on `workers` threads (the caller is
// one of them), tasks taken in order as workers become free. `worker` is in [0, workers).
//
// If tasks throw, no further ones start, those under way finish, and the exception of the lowest
// failed index is rethrown. After a stop request no further task starts, and Error{interrupted} is
// thrown if any is left undone. Results must depend on i alone, never on `worker`.
void run_tasks(std::size_t count, unsigned workers,
               const std::function<void(std::size_t index, unsigned worker)>& task,
               const std::stop_token& stop = {});

// The same for many short runs: the threads stay between them, and wait actively for half a
// millisecond before they sleep, unless more threads of teams are awake than there are cores. One
// run at a time.
class Team {
 public:
  explicit Team(unsigned workers, unsigned most = largest_team());
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] unsigned workers() const { return static_cast<unsigned>(others_.size()) + 1; }

  void run(std::size_t count, const std::function<void(std::size_t index, unsigned worker)>& task,
           const std::stop_token& stop = {});

  // The same, not in order: every worker begins with its own share of the indexes, the same in each
  // run, so that what it works on is still in its cache, and then helps the others.
  void run_shares(std::size_t count,
                  const std::function<void(std::size_t index, unsigned worker)>& task);

 private:
  void send_home();  // ends the threads
  // `take(worker)` gives the next index for a worker; `count` or more: there is none.
  void run_taken(std::size_t count, const std::function<std::size_t(unsigned worker)>& take,
                 const std::function<void(std::size_t index, unsigned worker)>& task,
                 const std::stop_token& stop);

  unsigned cores_ = 1;
  std::atomic<unsigned> round_{0};    // goes up when there is work, or when all is over
  std::atomic<unsigned> working_{0};  // threads that have not finished this round
  const std::function<void(unsigned worker)>* work_ = nullptr;  // none: all is over
  std::vector<std::jthread> others_;
};

}  // namespace oubli
