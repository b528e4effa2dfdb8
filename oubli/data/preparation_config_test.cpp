#include "oubli/data/preparation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oubli/base/error.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

StatedPreparation stated(const char* text) {
  return parse_preparation_config(text, "preprocessor_config.json").value();
}
std::string words(const char* text) { return option_words(stated(text).options); }

TEST(PreparationConfig, OfTransformers) {
  EXPECT_EQ(words(R"({"do_rescale": true, "rescale_factor": 0.5, "do_normalize": true,
                      "image_mean": [0.5, 0.25, 0.125], "image_std": [1, 2, 4],
                      "size": {"height": 224, "width": 192}})"),
            "--scale 0.5 --mean 0.5,0.25,0.125 --std 1,2,4 --size 224x192");
  EXPECT_EQ(words(R"({"do_rescale": false, "size": 96})"), "--scale 1 --size 96x96");
  // Files of old have no do_rescale, and rescale.
  EXPECT_EQ(words(R"({"image_mean": [0.5], "image_std": [0.5], "do_normalize": true})"),
            "--scale 0.00392156863 --mean 0.5 --std 0.5");
  EXPECT_EQ(words(R"({"image_mean": [0.5], "image_std": [0.5], "do_normalize": false})"),
            "--scale 0.00392156863");
  EXPECT_EQ(words(R"({"image_processor": {"do_rescale": false}})"), "--scale 1");
}

TEST(PreparationConfig, WhatIsLeftOutIsSaid) {
  const char* const crop =
      R"({"do_rescale": false, "do_center_crop": true, "size": {"shortest_edge": 256},
          "crop_size": {"height": 224, "width": 224}})";
  EXPECT_EQ(words(crop), "--scale 1 --size 224x224");
  EXPECT_THAT(stated(crop).not_done, ElementsAre("a centre crop"));
  EXPECT_THAT(stated(R"({"do_rescale": true, "size": 224, "crop_pct": 0.875})").not_done,
              ElementsAre("a centre crop"));
  EXPECT_THAT(stated(R"({"do_rescale": true, "do_pad": true})").not_done, ElementsAre("a border"));
  EXPECT_THAT(stated(R"({"do_rescale": true, "size": 224})").not_done, IsEmpty());
}

TEST(PreparationConfig, WhatOptionsCannotSayIsNotGuessed) {
  EXPECT_THAT(stated(R"({"rescale_offset": true})").cannot, HasSubstr("after scaling"));
  EXPECT_THAT(stated(R"({"do_resize": true, "do_flip_channel_order": true})").cannot,
              HasSubstr("red and blue"));
  EXPECT_THAT(stated(R"({"do_normalize": true, "image_mean": [0.5]})").cannot, HasSubstr("mean"));
  EXPECT_THAT(stated(R"({"image_mean": [0.5], "image_std": [0]})").cannot, HasSubstr("mean"));
  EXPECT_THAT(stated(R"({"image_mean": ["a"], "image_std": [1]})").cannot, HasSubstr("mean"));
  EXPECT_FALSE(stated(R"({"do_rescale": true, "size": 1000000})").options.size);
}

TEST(PreparationConfig, OfTimm) {
  const char* const text =
      R"({"architecture": "resnet18", "num_classes": 3, "pretrained_cfg": {
          "input_size": [3, 224, 192], "crop_pct": 0.95, "mean": [0.485, 0.456, 0.406],
          "std": [0.229, 0.224, 0.225]}})";
  EXPECT_EQ(words(text),
            "--scale 0.00392156863 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 "
            "--size 224x192");
  EXPECT_THAT(stated(text).not_done, ElementsAre("a centre crop"));
}

TEST(PreparationConfig, OtherFilesSayNothing) {
  EXPECT_FALSE(parse_preparation_config(R"({"id2label": {"0": "a"}, "hidden_size": 5})", "c"));
  EXPECT_FALSE(parse_preparation_config("[1, 2]", "c"));
  EXPECT_EQ(testing::error_of([] { (void)parse_preparation_config("{", "c.json"); }).code(),
            ErrorCode::bad_input);
}

}  // namespace
}  // namespace oubli
