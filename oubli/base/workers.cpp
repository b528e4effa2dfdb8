#include "oubli/base/workers.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "oubli/base/error.h"

namespace oubli {

unsigned available_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0)
    return static_cast<unsigned>(std::max(1, CPU_COUNT(&cores)));
  return std::max(1U, std::thread::hardware_concurrency());
}

// Two even on one core: some tasks wait for each other.
unsigned largest_team() { return std::max(2U, available_cores()); }

namespace {

// Threads of teams that are awake, and the first thread of the process. More of them than cores
// would only keep each other from working by waiting actively, and teams cannot know that from
// their own size: several may be at work at once.
std::atomic<unsigned> awake{1};

void await_change(const std::atomic<unsigned>& value, unsigned from, unsigned cores) {
  constexpr int kGlances = 30000;  // half a millisecond: being woken can take a tenth
  for (int glance = 0; glance < kGlances; ++glance) {
    if (value.load(std::memory_order_acquire) != from) return;
    if (awake.load(std::memory_order_relaxed) > cores) break;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  awake.fetch_sub(1, std::memory_order_relaxed);
  value.wait(from, std::memory_order_acquire);
  awake.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// Linux often starts a thread on its creator's core, where it waits for milliseconds although
// another core is idle. Told to keep off that core it starts at once; it forgets that with its
// first work.
Team::Team(unsigned workers, unsigned most) {
  workers = std::min(workers, most);
  if (workers < 2) return;
  cores_ = available_cores();
  cpu_set_t allowed{};
  const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) > 1;
  cpu_set_t elsewhere = allowed;
  if (known) CPU_CLR(static_cast<unsigned>(std::max(0, sched_getcpu())), &elsewhere);
  const auto wait_and_work = [this, known, allowed](unsigned worker) {
    awake.fetch_add(1, std::memory_order_relaxed);
    for (unsigned round = 0;;) {
      await_change(round_, round, cores_);
      if (known && round == 0) (void)sched_setaffinity(0, sizeof allowed, &allowed);
      ++round;
      if (work_ == nullptr) break;
      (*work_)(worker);
      if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) working_.notify_one();
    }
    awake.fetch_sub(1, std::memory_order_relaxed);
  };
  try {
    for (unsigned worker = 1; worker < workers; ++worker) {
      others_.emplace_back(wait_and_work, worker);
      if (known)
        (void)pthread_setaffinity_np(others_.back().native_handle(), sizeof elsewhere, &elsewhere);
    }
  } catch (...) {  // no more threads to be had: those that wait must not do so for ever
    send_home();
    throw;
  }
}

Team::~Team() { send_home(); }

void Team::send_home() {
  work_ = nullptr;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
}

void Team::run(std::size_t count,
               const std::function<void(std::size_t index, unsigned worker)>& task,
               const std::stop_token& stop) {
  std::atomic<std::size_t> next{0};
  run_taken(
      count, [&](unsigned) { return next.fetch_add(1); }, task, stop);
}

void Team::run_shares(std::size_t count,
                      const std::function<void(std::size_t index, unsigned worker)>& task) {
  const std::size_t workers = others_.size() + 1;
  struct alignas(64) Share {  // a cache line each
    std::atomic<std::size_t> next;
    std::size_t end = 0;
  };
  std::vector<Share> shares(workers);
  for (std::size_t w = 0; w < workers; ++w) {
    shares[w].next = count * w / workers;
    shares[w].end = count * (w + 1) / workers;
  }
  const auto take = [&](unsigned worker) {
    for (std::size_t k = 0; k < workers; ++k) {
      Share& share = shares[(worker + k) % workers];
      if (share.next.load() >= share.end) continue;
      if (const std::size_t index = share.next.fetch_add(1); index < share.end) return index;
    }
    return count;
  };
  run_taken(count, take, task, {});
}

void Team::run_taken(std::size_t count, const std::function<std::size_t(unsigned worker)>& take,
                     const std::function<void(std::size_t index, unsigned worker)>& task,
                     const std::stop_token& stop) {
  std::atomic<bool> failed{false};
  std::mutex mutex;  // guards the two below
  std::size_t first_failure = count;
  std::exception_ptr failure;

  const std::function<void(unsigned)> work = [&](unsigned worker) {
    while (!failed.load() && !stop.stop_requested()) {
      const std::size_t index = take(worker);
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

  if (others_.empty()) {
    work(0);
  } else {
    work_ = &work;
    working_.store(static_cast<unsigned>(others_.size()), std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    work(0);
    for (unsigned left; (left = working_.load(std::memory_order_acquire)) != 0;)
      await_change(working_, left, cores_);
  }
  if (failure) std::rethrow_exception(failure);
  if (take(0) < count) throw Error(ErrorCode::interrupted, "interrupted");
}

void run_tasks(std::size_t count, unsigned workers,
               const std::function<void(std::size_t index, unsigned worker)>& task,
               const std::stop_token& stop) {
  Team(static_cast<unsigned>(std::min<std::size_t>(workers, count))).run(count, task, stop);
}

}  // namespace oubli
