#include "oubli/base/class_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "oubli/base/error.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using ::oubli::testing::error_of;
using ::testing::ElementsAre;
using Classes = std::vector<std::size_t>;

// Every set of classes that can go from up to six: against the definition.
TEST(ClassSplit, IsTheSetAndItsComplement) {
  for (std::size_t classes = 1; classes <= 6; ++classes)
    for (unsigned set = 0; set + 1 < 1U << classes; ++set) {
      Classes forgotten;
      for (std::size_t c = classes; c-- > 0;)
        if ((set >> c & 1) != 0) forgotten.push_back(c);
      const ClassSplit split = split_classes(classes, forgotten);
      EXPECT_EQ(split.forgotten, forgotten);
      EXPECT_EQ(split.retained.size() + forgotten.size(), classes);
      std::size_t next = 0;
      for (std::size_t c = 0; c < classes; ++c) {
        EXPECT_EQ(split.forgets(c), (set >> c & 1) != 0);
        EXPECT_EQ(split.new_index(c), split.forgets(c) ? std::nullopt : std::optional(next++));
      }
      EXPECT_EQ(split.new_index(classes), std::nullopt);
    }
}

TEST(ClassSplit, RefusesWhatIsNoDeletion) {
  const auto refused = [](std::size_t classes, const Classes& forgotten, ErrorCode code) {
    const Error error = error_of([&] { (void)split_for_deletion(classes, forgotten); });
    EXPECT_EQ(error.code(), code);
    return std::string(error.what());
  };
  using enum ErrorCode;
  EXPECT_EQ(refused(3, {3}, usage), "class 3 does not exist: the classes are 0 to 2");
  EXPECT_EQ(refused(5, {1, 2, 1}, usage), "class 1 is named twice");
  EXPECT_EQ(refused(3, {}, usage), "no class to forget was named");
  EXPECT_EQ(refused(3, {2, 0, 1}, unfilterable),
            "forgetting 3 of 3 classes leaves 0; a classifier needs at least two");
  EXPECT_EQ(error_of([] { (void)split_classes(2, Classes{1, 0}); }).code(), usage);
  EXPECT_EQ(refused(3, {2, 0}, unfilterable),
            "forgetting 2 of 3 classes leaves 1; a classifier needs at least two");
  EXPECT_THAT(split_classes(3, Classes{2, 0}).retained, ElementsAre(1));  // may be trained without
  EXPECT_THAT(split_classes(2, {}).retained, ElementsAre(0, 1));
}

}  // namespace
}  // namespace oubli
