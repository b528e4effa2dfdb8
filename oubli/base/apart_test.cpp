#include "oubli/base/apart.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

#include "oubli/base/error.h"

namespace oubli {
namespace {

TEST(RunApart, GivesBackWhatWasMadeWhateverItsSize) {
  for (const std::size_t size : {0U, 1U, 3'000'000U}) {
    const ApartOutcome outcome = run_apart([&] { return std::string(size, 'a'); }, {});
    ASSERT_TRUE(outcome.result) << outcome.ended;
    EXPECT_EQ(*outcome.result, std::string(size, 'a'));
  }
}

TEST(RunApart, ThrowsTheErrorsOfTheWork) {
  try {
    (void)run_apart([]() -> std::string { fail(ErrorCode::unfilterable, "two\nlines"); }, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unfilterable);
    EXPECT_STREQ(error.what(), "two\nlines");
  }
}

TEST(RunApart, OutlivesWhatCrashes) {
  const ApartOutcome outcome =
      run_apart([]() -> std::string { ::raise(SIGSEGV), std::abort(); }, {});
  EXPECT_FALSE(outcome.result);
  EXPECT_NE(outcome.ended, "");
  EXPECT_EQ(run_apart([]() -> std::string { std::_Exit(0); }, {}).ended,
            "it ended without a result");
}

TEST(RunApart, EndsWhatTakesTooLong) {
  const ApartOutcome outcome = run_apart(
      []() -> std::string {
        for (std::uint32_t i = 1;; i = i * 3 + 1)
          if (i == 0) (void)::getppid();
      },
      {.seconds = 1});
  EXPECT_EQ(outcome.ended, "it took more than 1 s");
  const ApartOutcome sleeper = run_apart(
      []() -> std::string {
        for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
      },
      {.seconds = 1});
  EXPECT_EQ(sleeper.ended, "it took more than 1 s");
}

TEST(RunApart, EndsWhatTakesTooMuchMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take terabytes of addresses";
#endif
  const ApartOutcome outcome = run_apart(
      [] {
        std::string text;
        for (std::vector<std::vector<char>> all;; all.emplace_back(1 << 20, 'a')) text += 'a';
        return text;
      },
      {.memory = std::uint64_t{64} << 20});
  EXPECT_EQ(outcome.ended, "it took more than 64 MiB");
}

}  // namespace
}  // namespace oubli
