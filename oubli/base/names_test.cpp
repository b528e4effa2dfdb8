#include "oubli/base/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace oubli {
namespace {

TEST(NearestNames, ByEditDistance) {
  const std::vector<std::string> names{"bob", "alice", "alicia", "carol"};
  EXPECT_THAT(nearest_names("alcie", names, 2), ::testing::ElementsAre("alice", "alicia"));
  EXPECT_THAT(nearest_names("x", {}, 2), ::testing::IsEmpty());
}

}  // namespace
}  // namespace oubli
