#include "oubli/base/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "oubli/base/error.h"

namespace oubli {
namespace {

TEST(RunTasks, RunsEachTaskOnceWhateverTheWorkers) {
  for (const unsigned workers : {0U, 1U, 2U, 5U, 64U}) {
    std::vector<std::atomic<int>> runs(37);
    run_tasks(runs.size(), workers, [&](std::size_t i, unsigned worker) {
      EXPECT_LT(worker, std::max(1U, workers));
      ++runs[i];
    });
    for (const auto& count : runs) EXPECT_EQ(count, 1);
  }
  run_tasks(0, 3, [](std::size_t, unsigned) { FAIL(); });
}

TEST(RunTasks, RethrowsTheFailureOfTheLowestIndex) {
  // Both tasks are under way before either fails, so both failures are recorded.
  std::atomic<int> started{0};
  const auto both_fail = [&](std::size_t i, unsigned) {
    ++started;
    while (started < 2) {
    }
    fail(ErrorCode::bad_input, "task {}", i);
  };
  try {
    run_tasks(2, 2, both_fail);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "task 0");
  }
}

TEST(RunTasks, StopLeavesTasksUndoneAndSaysSo) {
  std::stop_source source;
  std::atomic<int> runs{0};
  try {
    run_tasks(
        1000, 2,
        [&](std::size_t, unsigned) {
          ++runs;
          source.request_stop();
        },
        source.get_token());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::interrupted);
  }
  EXPECT_LE(runs, 2);
}

}  // namespace
}  // namespace oubli
