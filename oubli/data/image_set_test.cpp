#include "oubli/data/image_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oubli/base/error.h"

namespace oubli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ImageSet small() {
  return {.name = "small",
          .channels = 1,
          .height = 1,
          .width = 2,
          .pixels = {0, 1, 10, 11, 20, 21, 30, 31},
          .labels = {2, 0, 1, 2},
          .class_names = {"a", "b", "c"}};
}

TEST(ImageSet, WithoutClassesNumbersTheRestAnew) {
  const std::vector<std::size_t> gone = {1};
  const ImageSet rest = without_classes(small(), gone);
  EXPECT_THAT(rest.labels, ElementsAre(1, 0, 1));
  EXPECT_THAT(rest.class_names, ElementsAre("a", "c"));
  EXPECT_THAT(rest.pixels, ElementsAre(0, 1, 10, 11, 30, 31));
  const std::vector<std::size_t> all = {2, 0, 1};
  EXPECT_THROW((void)without_classes(small(), all), Error);
  const std::vector<std::size_t> unknown = {3};
  EXPECT_THROW((void)without_classes(small(), unknown), Error);
  EXPECT_EQ(without_classes(small(), {}).pixels, small().pixels);
}

TEST(ImageSet, ClassesNamedAreNumberedInThatOrder) {
  const std::vector<std::string> names = {"c", "a"};
  const ImageSet all = classes_named(small(), names, 0);
  EXPECT_THAT(all.class_names, ElementsAre("c", "a"));
  EXPECT_THAT(all.labels, ElementsAre(0, 1, 0));
  EXPECT_THAT(all.pixels, ElementsAre(0, 1, 10, 11, 30, 31));
  EXPECT_THAT(classes_named(small(), names, 1).pixels, ElementsAre(0, 1, 10, 11));
  const std::vector<std::string> unknown = {"a", "d"};
  EXPECT_THROW((void)classes_named(small(), unknown, 0), Error);
}

TEST(ImageSet, HalfSizeAveragesFourPixels) {
  const ImageSet set{.name = "",
                     .channels = 1,
                     .height = 3,
                     .width = 4,
                     .pixels = {0, 2, 255, 255, 4, 7, 255, 254, 9, 9, 9, 9},
                     .labels = {0},
                     .class_names = {"0"}};
  const ImageSet half = half_size(set);
  EXPECT_EQ(half.height, 1U);
  EXPECT_EQ(half.width, 2U);
  EXPECT_THAT(half.pixels, ElementsAre(3, 255));  // 13/4 = 3.25, 1019/4 = 254.75
}

}  // namespace
}  // namespace oubli
