#include "oubli/inversion/start_image.h"

#include <gmock/gmock.h>

#include "oubli/base/error.h"

namespace oubli {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Lt;
using ::testing::SizeIs;

ImageSet two_images() {
  return {.name = "two",
          .channels = 1,
          .height = 1,
          .width = 2,
          .pixels = {0, 51, 255, 102},
          .labels = {0, 1},
          .class_names = {"a", "b"}};
}

TEST(StartImage, IsWhatTheWordSays) {
  const ImageSet data = two_images();
  EXPECT_THAT(start_image("0.5", 1, data), ElementsAre(0.5F, 0.5F));
  EXPECT_THAT(start_image("image:1", 1, data), ElementsAre(1.0F, 0.4F));
  EXPECT_THAT(start_image("mean", 1, data), ElementsAre(0.5F, 0.3F));
  const std::vector<float> noise = start_image("noise", 1, data);
  EXPECT_THAT(noise, SizeIs(2));
  EXPECT_THAT(noise, Each(Ge(0.0F)));
  EXPECT_THAT(noise, Each(Lt(1.0F)));
  EXPECT_EQ(start_image("noise", 1, data), noise);
  EXPECT_NE(start_image("noise", 2, data), noise);
}

TEST(StartImage, RefusesEveryOtherWord) {
  for (const char* const word : {"", "grey", "-0.1", "1.5", "0.5x", "nan", "image:2", "image:-1"})
    EXPECT_THROW((void)start_image(word, 1, two_images()), Error) << word;
}

}  // namespace
}  // namespace oubli
