#include "oubli/base/workers.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <fstream>
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

TEST(Team, DoesManyShortRunsOneAfterAnother) {
  for (const unsigned workers : {0U, 1U, 2U, 5U}) {
    Team team(workers);
    // Each run reads what the one before wrote: a run that began too early would be seen.
    std::vector<std::size_t> values(11, 0);
    for (std::size_t run = 0; run < 2000; ++run)
      team.run(values.size(), [&](std::size_t i, unsigned worker) {
        EXPECT_LT(worker, std::max(1U, workers));
        if (values[i] == run) ++values[i];
      });
    for (const std::size_t value : values) EXPECT_EQ(value, 2000U);
  }
}

TEST(Team, SharesCoverEveryIndexOnce) {
  for (const unsigned workers : {0U, 1U, 2U, 5U}) {
    Team team(workers);
    for (const std::size_t count : {0U, 1U, 3U, 37U}) {
      std::vector<std::atomic<int>> runs(count);
      for (int round = 0; round < 100; ++round)
        team.run_shares(count, [&](std::size_t i, unsigned worker) {
          EXPECT_LT(worker, std::max(1U, workers));
          ++runs[i];
        });
      for (const auto& times : runs) EXPECT_EQ(times, 100);
    }
    EXPECT_THROW(
        team.run_shares(9, [](std::size_t i, unsigned) { fail(ErrorCode::usage, "{}", i); }),
        Error);
  }
}

TEST(Team, IsNoLargerThanTheCores) {
  EXPECT_EQ(Team(1000).workers(), largest_team());
  EXPECT_EQ(Team(1).workers(), 1U);
  EXPECT_EQ(largest_team(), std::max(2U, available_cores()));
}

TEST(Team, SeveralAtOnceShareTheCores) {
  std::atomic<int> runs{0};
  run_tasks(8, 8, [&](std::size_t, unsigned) {
    Team team(8, 8);
    for (int run = 0; run < 50; ++run) team.run(16, [&](std::size_t, unsigned) { ++runs; });
  });
  EXPECT_EQ(runs, 8 * 50 * 16);
}

TEST(Team, GoesOnAfterAFailure) {
  Team team(3);
  for (int round = 0; round < 50; ++round) {
    EXPECT_THROW(team.run(10,
                          [](std::size_t i, unsigned) {
                            if (i == 4) fail(ErrorCode::bad_input, "four");
                          }),
                 Error);
    std::atomic<int> runs{0};
    team.run(10, [&](std::size_t, unsigned) { ++runs; });
    EXPECT_EQ(runs, 10);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need all addresses
TEST(TeamDeathTest, EndsWhereThreadsCannotBeHad) {
  const auto start_too_many = [] {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{100} << 20);
    const rlimit limit{most, most};
    (void)::setrlimit(RLIMIT_AS, &limit);
    (void)::alarm(20);  // it hung once, waiting for the threads that had started
    try {
      const Team team(1000, 1000);  // of 8 MiB of stack each
    } catch (const std::exception&) {
      std::exit(0);
    }
    std::exit(1);
  };
  EXPECT_EXIT(start_too_many(), ::testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace oubli
