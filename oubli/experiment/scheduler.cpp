#include "oubli/experiment/scheduler.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "oubli/base/progress.h"
#include "oubli/base/workers.h"
#include "oubli/experiment/run_folder.h"

namespace oubli {
namespace {

class ThreadScheduler final : public Scheduler {
 public:
  ThreadScheduler(unsigned jobs, std::stop_token stop) : jobs_(jobs), stop_(std::move(stop)) {}

  [[nodiscard]] bool is_main() const override { return true; }
  [[nodiscard]] std::string name() const override { return this_process(); }
  [[nodiscard]] std::string share(const std::function<std::string()>& make) override {
    return make();
  }
  void run(const std::string& label, std::span<const std::size_t> todo,
           const std::function<void(std::size_t)>& task) override {
    if (todo.empty()) return;
    Progress progress(label, todo.size());
    run_tasks(
        todo.size(), jobs_,
        [&](std::size_t index, unsigned) {
          task(todo[index]);
          progress.step();
        },
        stop_);
  }
  void finish() override {}
  void abort(int) override {}

 private:
  unsigned jobs_;
  std::stop_token stop_;
};

}  // namespace

std::unique_ptr<Scheduler> thread_scheduler(unsigned jobs, std::stop_token stop) {
  return std::make_unique<ThreadScheduler>(jobs, std::move(stop));
}

bool started_by_mpi() {
  // Open MPI's mpirun, PMIx (srun --mpi=pmix), PMI (MPICH's and Slurm's older interface).
  constexpr std::array kNames = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"};
  return std::ranges::any_of(kNames, [](const char* name) { return std::getenv(name) != nullptr; });
}

}  // namespace oubli
