#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

namespace oubli {

// Spreads independent tasks, each of which leaves its result in a file, over the threads of this
// process or over the ranks of an MPI job. All processes of a job make the same calls in the same
// order. What a task computes may depend on its index alone.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // True in one process of the job: the one that owns the run folder and prints.
  [[nodiscard]] virtual bool is_main() const = 0;
  // "process 123 on host", "rank 2, process 123 on host".
  [[nodiscard]] virtual std::string name() const = 0;
  // Calls `make` in the main process and returns its result in all of them.
  [[nodiscard]] virtual std::string share(const std::function<std::string()>& make) = 0;
  // Runs task(i) once for every i of `todo` (the main process's list counts), somewhere, taken in
  // order as threads and ranks become free. A task that throws ends the whole job.
  virtual void run(const std::string& label, std::span<const std::size_t> todo,
                   const std::function<void(std::size_t)>& task) = 0;
  // Ends the job's other processes, if there are any: the main process goes on alone.
  virtual void finish() = 0;
  // Called at the boundary instead of an ordinary exit when this process fails: the others must not
  // wait for it. Does not return if there are others.
  virtual void abort(int exit_code) = 0;
};

// `jobs` threads of this process.
[[nodiscard]] std::unique_ptr<Scheduler> thread_scheduler(unsigned jobs, std::stop_token stop);

// Whether this process was started by mpirun, srun or the like.
[[nodiscard]] bool started_by_mpi();
// Each rank works with `jobs` threads. Error{missing} if the program was built without MPI.
[[nodiscard]] std::unique_ptr<Scheduler> mpi_scheduler(unsigned jobs, std::stop_token stop);

}  // namespace oubli
