#include "oubli/cli/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <system_error>

namespace oubli::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What main() ends with, and what a rank of an MPI job says before all of it ends.
TEST(FailureOf, EveryExceptionHasItsCodeAndWords) {
  const Failure ours = failure_of(Error(ErrorCode::unfilterable, "m.npz: no head"));
  EXPECT_EQ(ours.code, ErrorCode::unfilterable);
  EXPECT_EQ(ours.message, "m.npz: no head");

  const Failure memory = failure_of(std::bad_alloc());
  EXPECT_EQ(memory.code, ErrorCode::io);
  EXPECT_THAT(memory.message, HasSubstr("out of memory"));
  EXPECT_THAT(memory.message, Not(HasSubstr("bad_alloc")));
  EXPECT_THAT(memory.message, Not(HasSubstr("nothing was written")));

  const Failure thread = failure_of(std::system_error(EAGAIN, std::generic_category()));
  EXPECT_EQ(thread.code, ErrorCode::io);
  EXPECT_THAT(thread.message, HasSubstr("out of memory"));

  const Failure system = failure_of(std::system_error(EACCES, std::generic_category()));
  EXPECT_EQ(system.code, ErrorCode::io);
  EXPECT_THAT(system.message, HasSubstr("the operating system refused"));

  const Failure bug = failure_of(std::logic_error("x.cpp:1"));
  EXPECT_EQ(bug.code, ErrorCode::bug);
  EXPECT_THAT(bug.message, HasSubstr("x.cpp:1"));
}

}  // namespace
}  // namespace oubli::cli
