// The only file that knows MPI. Part of the program, not of the library, so that nobody else links
// it.
//
// Every rank works with threads; its main thread alone talks MPI, polling with pauses (Open MPI's
// blocking calls would burn a core). Rank 0 hands out one task per free thread of any rank, itself
// included, as they become free. Every rank is heard from at least every two seconds; one that is
// silent for 30 is taken as dead, reported, and its tasks are handed out again. mpirun by itself
// ends the whole job when a rank dies, unless started with --enable-recovery: then a re-run of the
// same command does what is missing.
#include "oubli/base/error.h"
#include "oubli/experiment/scheduler.h"

#ifdef OUBLI_HAVE_MPI
#include <fmt/format.h>
#define OMPI_SKIP_MPICXX 1  // the C interface only
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "oubli/base/interrupt.h"
#include "oubli/base/progress.h"
#include "oubli/experiment/run_folder.h"

namespace oubli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPause = std::chrono::milliseconds(5);
constexpr auto kBeat = std::chrono::seconds(2);
constexpr auto kSilence = std::chrono::seconds(30);

enum class Word : std::int64_t { want, done, beat, take, stop };
struct Message {
  Word word;
  std::int64_t task;
};

// Threads that run tasks handed in one by one, and say which are done.
class Hands {
 public:
  Hands(unsigned count, const std::function<void(std::size_t)>& task) : free_(count) {
    for (unsigned i = 0; i < count; ++i) {
      threads_.emplace_back([this, &task](const std::stop_token& stop) { work(task, stop); });
    }
  }
  void give(std::size_t task) {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(task);
    --free_;
  }
  [[nodiscard]] unsigned free() {
    const std::scoped_lock lock(mutex_);
    return free_;
  }
  // Tasks finished since the last call; rethrows what a task threw.
  [[nodiscard]] std::vector<std::size_t> take_done() {
    const std::scoped_lock lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    return std::exchange(done_, {});
  }

 private:
  void work(const std::function<void(std::size_t)>& task, const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::optional<std::size_t> next;
      {
        const std::scoped_lock lock(mutex_);
        if (!queue_.empty()) {
          next = queue_.front();
          queue_.pop_front();
        }
      }
      if (!next) {
        std::this_thread::sleep_for(kPause);
        continue;
      }
      try {
        task(*next);
        const std::scoped_lock lock(mutex_);
        done_.push_back(*next);
        ++free_;
      } catch (...) {
        const std::scoped_lock lock(mutex_);
        error_ = std::current_exception();
        return;
      }
    }
  }

  std::mutex mutex_;
  std::deque<std::size_t> queue_;
  std::vector<std::size_t> done_;
  unsigned free_;
  std::exception_ptr error_;
  std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

class MpiScheduler final : public Scheduler {
 public:
  MpiScheduler(unsigned jobs, std::stop_token stop) : jobs_(jobs), stop_(std::move(stop)) {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    if (provided < MPI_THREAD_FUNNELED) fail(ErrorCode::missing, "this MPI does not allow threads");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    alive_.assign(static_cast<std::size_t>(ranks_), true);
    names_.resize(static_cast<std::size_t>(ranks_));
    // Who is who, so that a dead rank can be named.
    std::array<char, 256> mine{};
    fmt::format_to_n(mine.data(), mine.size() - 1, "{}", name());
    std::vector<char> all(mine.size() * names_.size());
    MPI_Gather(mine.data(), static_cast<int>(mine.size()), MPI_CHAR, all.data(),
               static_cast<int>(mine.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
    for (std::size_t i = 0; i < names_.size(); ++i) names_[i] = all.data() + i * mine.size();
  }
  ~MpiScheduler() override {
    if (!finished_) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ErrorCode::bug));
  }
  MpiScheduler(const MpiScheduler&) = delete;
  MpiScheduler& operator=(const MpiScheduler&) = delete;

  [[nodiscard]] bool is_main() const override { return rank_ == 0; }
  [[nodiscard]] std::string name() const override {
    return fmt::format("rank {}, {}", rank_, this_process());
  }

  [[nodiscard]] std::string share(const std::function<std::string()>& make) override {
    std::string text;
    if (is_main()) text = make();
    std::int64_t size = static_cast<std::int64_t>(text.size());
    MPI_Bcast(&size, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    text.resize(static_cast<std::size_t>(size));
    MPI_Bcast(text.data(), static_cast<int>(size), MPI_CHAR, 0, MPI_COMM_WORLD);
    return text;
  }

  void run(const std::string& label, std::span<const std::size_t> todo,
           const std::function<void(std::size_t)>& task) override {
    ++phase_;
    if (is_main()) {
      hand_out(label, todo, task);
    } else {
      serve(task);
    }
  }

  void finish() override {
    if (finished_) return;
    finished_ = true;
    // With a dead rank MPI_Finalize would wait for ever.
    if (std::ranges::all_of(alive_, [](bool alive) { return alive; })) MPI_Finalize();
  }

  void abort(int exit_code) override {
    finished_ = true;
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    _exit(exit_code);
  }

 private:
  void send(int to, Message message) const {
    MPI_Request request = MPI_REQUEST_NULL;
    // Two numbers: sent at once and buffered, so nobody waits for a rank that died.
    MPI_Isend(&message, sizeof message, MPI_BYTE, to, phase_, MPI_COMM_WORLD, &request);
    int done = 0;
    const auto give_up = Clock::now() + kSilence;
    while (done == 0 && Clock::now() < give_up) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
  }

  // The next message, if one is there.
  [[nodiscard]] std::optional<std::pair<int, Message>> receive() const {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, phase_, MPI_COMM_WORLD, &there, &status);
    if (there == 0) return std::nullopt;
    Message message{};
    MPI_Recv(&message, sizeof message, MPI_BYTE, status.MPI_SOURCE, phase_, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    return std::pair(status.MPI_SOURCE, message);
  }

  void hand_out(const std::string& label, std::span<const std::size_t> todo,
                const std::function<void(std::size_t)>& task) {
    std::deque<std::size_t> waiting(todo.begin(), todo.end());
    std::vector<bool> open;  // by task: not yet done
    for (const std::size_t i : todo) {
      if (i >= open.size()) open.resize(i + 1);
      open[i] = true;
    }
    std::size_t left = todo.size();
    const auto ranks = static_cast<std::size_t>(ranks_);
    std::vector<std::vector<std::size_t>> held(ranks);
    std::vector<std::size_t> wants(ranks);
    std::vector<Clock::time_point> heard(ranks, Clock::now());
    Progress progress(label, std::max<std::size_t>(todo.size(), 1));
    Hands hands(jobs_, task);
    const auto tick_off = [&](std::size_t i) {
      if (!open[i]) return;  // done twice: by a rank taken as dead, and by its substitute
      open[i] = false;
      --left;
      progress.step();
    };
    while (left > 0) {
      throw_if_stopped(stop_);
      for (const std::size_t i : hands.take_done()) tick_off(i);
      while (const auto got = receive()) {
        const auto from = static_cast<std::size_t>(got->first);
        heard[from] = Clock::now();
        if (!alive_[from]) continue;
        if (got->second.word == Word::want) ++wants[from];
        if (got->second.word == Word::done) {
          const auto i = static_cast<std::size_t>(got->second.task);
          std::erase(held[from], i);
          tick_off(i);
        }
      }
      while (!waiting.empty() && hands.free() > 0) {
        hands.give(waiting.front());
        waiting.pop_front();
      }
      for (std::size_t rank = 1; rank < ranks; ++rank) {
        if (!alive_[rank]) continue;
        while (!waiting.empty() && wants[rank] > 0) {
          --wants[rank];
          held[rank].push_back(waiting.front());
          send(static_cast<int>(rank), {Word::take, static_cast<std::int64_t>(waiting.front())});
          waiting.pop_front();
        }
        if (Clock::now() - heard[rank] > kSilence) bury(rank, held[rank], waiting);
      }
      std::this_thread::sleep_for(kPause);
    }
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      if (alive_[rank]) send(static_cast<int>(rank), {Word::stop, 0});
    }
    // Ranks answer a stop with a last word; one that does not is dead.
    std::vector<bool> ended(ranks);
    for (std::size_t rank = 1; rank < ranks; ++rank) ended[rank] = !alive_[rank];
    ended[0] = true;
    const auto patience = Clock::now() + kSilence;
    while (!std::ranges::all_of(ended, [](bool e) { return e; }) && Clock::now() < patience) {
      while (const auto got = receive()) {
        if (got->second.word == Word::stop) ended[static_cast<std::size_t>(got->first)] = true;
      }
      std::this_thread::sleep_for(kPause);
    }
    std::vector<std::size_t> none;
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      if (!ended[rank]) bury(rank, none, waiting);
    }
  }

  void bury(std::size_t rank, std::vector<std::size_t>& held, std::deque<std::size_t>& waiting) {
    alive_[rank] = false;
    say(fmt::format(
        "{} has not been heard from for {} s: taken as dead, {} of its tasks are handed "
        "to others",
        names_[rank], kSilence.count(), held.size()));
    for (const std::size_t i : held) waiting.push_back(i);
    held.clear();
  }

  void serve(const std::function<void(std::size_t)>& task) {
    Hands hands(jobs_, task);
    unsigned asked = 0;
    auto spoke = Clock::time_point{};
    while (true) {
      throw_if_stopped(stop_);
      for (const std::size_t i : hands.take_done()) {
        send(0, {Word::done, static_cast<std::int64_t>(i)});
      }
      while (const auto got = receive()) {
        if (got->second.word == Word::stop) {
          send(0, {Word::stop, 0});
          return;
        }
        hands.give(static_cast<std::size_t>(got->second.task));
        --asked;
      }
      while (hands.free() > asked) {
        send(0, {Word::want, 0});
        ++asked;
      }
      if (Clock::now() - spoke > kBeat) {
        send(0, {Word::beat, 0});
        spoke = Clock::now();
      }
      std::this_thread::sleep_for(kPause);
    }
  }

  unsigned jobs_;
  std::stop_token stop_;
  int phase_ = 0;  // which run(), as the tag of its messages: an early rank's next words can wait
  int rank_ = 0;
  int ranks_ = 1;
  bool finished_ = false;
  std::vector<bool> alive_;
  std::vector<std::string> names_;
};

}  // namespace

std::unique_ptr<Scheduler> mpi_scheduler(unsigned jobs, std::stop_token stop) {
  return std::make_unique<MpiScheduler>(jobs, std::move(stop));
}

}  // namespace oubli

#else

namespace oubli {

std::unique_ptr<Scheduler> mpi_scheduler(unsigned, std::stop_token) {
  fail(
      ErrorCode::missing,
      "started by mpirun, but this program was built without MPI: install libopenmpi-dev and build "
      "it again, or run it without mpirun");
}

}  // namespace oubli

#endif
