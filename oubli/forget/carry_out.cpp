#include <algorithm>
#include <latch>
#include <memory>
#include <utility>

#include "oubli/base/file_chunks.h"
#include "oubli/base/workers.h"
#include "oubli/forget/delivery.h"
#include "oubli/forget/random_run.h"
#include "oubli/forget/receipt.h"

namespace oubli {
namespace {

// A plan being carried out.
class Carrying {
 public:
  Carrying(const ForgetInputs& inputs, const ForgetRequest& request, const ForgetPlan& plan,
           const ForgetOutputs& outputs, const std::stop_token& stop)
      : inputs_(inputs),
        request_(request),
        plan_(plan),
        outputs_(outputs),
        stop_(stop),
        delivery_(inputs, request, plan.digests, outputs, stop) {
    delivery_.check_places();
  }

  void stage() {
    delivery_.take(inputs_.model->stage(plan_.new_head, plan_.split().retained, outputs_.model,
                                        outputs_.replace));
    release_pages(inputs_.model->bytes());
  }

  // The written files are searched, read for their digests and run while they go to the disk, which
  // takes a thread but no core.
  void check() {
    const StagedModel& staged = delivery_.staged();
    std::vector<FileDigest> means;
    const auto check_part = [&](std::size_t part, unsigned) {
      if (part == 0) {
        for (const auto& path : staged.written->files()) wait_for_disk(path);
      } else if (part == 1) {
        outcome.written = delivery_.digest_model();
      } else if (part == 2) {
        outcome.written_check =
            check_staged(staged, inputs_.model->head(), plan_.written_head(), plan_.split());
      } else if (part == 3) {
        outcome.head_sha256 = head_digest(staged.written->head());
        if (plan_.has_means_to_keep()) means.push_back(write_remaining_means());
      } else {
        measure_run();
      }
    };
    run_tasks(5, available_cores() + 1, check_part, stop_);
    std::ranges::move(means, std::back_inserter(outcome.written));
  }

  void measure_leaks() {
    // Also if it fails: somebody may be waiting.
    const std::unique_ptr<std::latch, void (*)(std::latch*)> over(
        &leaks_are_measured_, [](std::latch* latch) { latch->count_down(); });
    outcome.leaks = look_for_leaks(inputs_, request_, plan_).leaks;
  }

  // After the leaks: what is needed for both would not be in memory at once before either.
  void measure_run() {
    leaks_are_measured_.wait();
    const HeadFilter& filter = plan_.filtration.filter;
    const HeadRounding rounding = plan_.rounding();
    const StagedModel& staged = delivery_.staged();
    outcome.run_check =
        inputs_.run != nullptr && !inputs_.run->stands_in()
            ? RunOutcome{inputs_.run->check(staged, filter, rounding, stop_), ""}
            : run_on_random_inputs(*inputs_.model, *staged.written, filter, rounding, stop_);
  }

  void deliver() {
    delivery_.look_for_names();
    std::ranges::move(delivery_.write_class_names(plan_.split().retained),
                      std::back_inserter(outcome.written));
    outcome.findings = std::move(delivery_.staged().findings);
    outcome.receipt =
        make_receipt(inputs_, request_, plan_, outcome, *delivery_.staged().written, outputs_);
    delivery_.write_receipt(outcome.receipt);
    delivery_.commit();
  }

  ForgetOutcome outcome;

 private:
  FileDigest write_remaining_means() {
    AtomicFile& file = delivery_.add(means_path(outputs_.model));
    write_means(file, shrink_means(*plan_.means, plan_.filtration, outcome.head_sha256));
    FileDigest its = Delivery::digest("means", file);
    wait_for_disk(file.temporary_path());
    return its;
  }

  const ForgetInputs& inputs_;
  const ForgetRequest& request_;
  const ForgetPlan& plan_;
  const ForgetOutputs& outputs_;
  const std::stop_token& stop_;
  Delivery delivery_;
  std::latch leaks_are_measured_{1};
};

}  // namespace

ForgetOutcome carry_out(const ForgetInputs& inputs, const ForgetRequest& request,
                        const ForgetPlan& plan, const ForgetOutputs& outputs,
                        const std::stop_token& stop) {
  Carrying carrying(inputs, request, plan, outputs, stop);
  const auto write_or_measure = [&](std::size_t task, unsigned) {
    if (task == 0) return carrying.measure_leaks();
    carrying.stage();
    carrying.check();
  };
  run_tasks(2, available_cores(), write_or_measure, stop);
  carrying.deliver();
  return std::move(carrying.outcome);
}

}  // namespace oubli
