#include "oubli/base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>
#include <thread>

#include "oubli/base/interrupt.h"
#include "oubli/base/workers.h"

namespace oubli {
namespace {

using ::testing::ElementsAre;

struct Ears : Listener {
  std::vector<std::string> lines;
  std::vector<std::size_t> steps;
  void said(const std::string& line) override { lines.push_back(line); }
  void progressed(const std::string& label, std::size_t done, std::size_t total) override {
    EXPECT_EQ(label, "work");
    EXPECT_EQ(total, 3U);
    steps.push_back(done);
  }
};

TEST(Listener, HearsWhatItsThreadSays) {
  Ears outer, inner;
  {
    const ListenerScope scope(outer);
    say("one");
    {
      const ListenerScope nested(inner);
      say("two");
    }
    say("three");
    // Another thread has no listener; quiet, so that the test says nothing.
    set_verbosity(Verbosity::quiet);
    std::thread([] { say("elsewhere"); }).join();
    set_verbosity(Verbosity::normal);
  }
  EXPECT_THAT(outer.lines, ElementsAre("one", "three"));
  EXPECT_THAT(inner.lines, ElementsAre("two"));
}

TEST(Listener, HearsProgressThatWorkersMake) {
  Ears ears;
  const ListenerScope scope(ears);
  Progress progress("work", 3);
  run_tasks(3, 3, [&](std::size_t, unsigned) { progress.step(); });
  EXPECT_THAT(ears.steps, ElementsAre(0, 1, 2, 3));
}

TEST(StopScope, GivesItsTokenInsteadOfTheSignals) {
  EXPECT_FALSE(StopScope::current().stop_possible());
  std::stop_source first, second;
  const StopScope scope(first.get_token());
  {
    const StopScope nested(second.get_token());
    second.request_stop();
    EXPECT_TRUE(stop_on_interrupt().stop_requested());
  }
  EXPECT_FALSE(stop_on_interrupt().stop_requested());
  first.request_stop();
  EXPECT_TRUE(StopScope::current().stop_requested());
  std::thread([] { EXPECT_FALSE(StopScope::current().stop_possible()); }).join();
}

}  // namespace
}  // namespace oubli
