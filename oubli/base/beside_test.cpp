#include "oubli/base/beside.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace oubli {
namespace {

TEST(RunBeside, WaitsForBothAndPassesFailuresOn) {
  int done = 0;
  bool background_done = false;
  run_beside([&] { ++done; }, [&] { background_done = true; });
  EXPECT_EQ(done, 1);
  EXPECT_TRUE(background_done);
  const auto words = [](const std::function<void()>& task,
                        const std::function<void()>& background) {
    try {
      run_beside(task, background);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string("nothing thrown");
  };
  const auto throws = [](const char* text) { return [text] { throw std::runtime_error(text); }; };
  background_done = false;
  EXPECT_EQ(words(throws("task"), [&] { background_done = true; }), "task");
  EXPECT_TRUE(background_done);
  EXPECT_EQ(words([] {}, throws("background")), "background");
  EXPECT_EQ(words(throws("task"), throws("background")), "task");
}

}  // namespace
}  // namespace oubli
