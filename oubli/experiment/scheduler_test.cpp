#include "oubli/experiment/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "oubli/base/error.h"

namespace oubli {
namespace {

TEST(Scheduler, ThreadsRunEveryTaskOnce) {
  const auto scheduler = thread_scheduler(3, {});
  std::vector<std::atomic<int>> runs(20);
  const std::vector<std::size_t> todo = {1, 3, 5, 19};
  scheduler->run("test", todo, [&](std::size_t i) { ++runs[i]; });
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i], std::ranges::find(todo, i) != todo.end() ? 1 : 0);
  }
}

TEST(Scheduler, AStopRequestEndsTheRun) {
  std::stop_source stop;
  const auto scheduler = thread_scheduler(1, stop.get_token());
  const std::vector<std::size_t> todo = {0, 1, 2};
  std::size_t ran = 0;
  try {
    scheduler->run("test", todo, [&](std::size_t) {
      ++ran;
      stop.request_stop();
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::interrupted);
  }
  EXPECT_EQ(ran, 1u);
}

}  // namespace
}  // namespace oubli
