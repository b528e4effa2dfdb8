#include "oubli/model/keras/config.h"

#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

KerasHead head_of(const std::string& text) { return find_keras_head(text, "model.h5"); }

std::string sequential(const std::string& layers) {
  return R"({"class_name": "Sequential", "config": {"name": "s", "layers": [)" + layers + "]}}";
}

TEST(KerasConfig, FindsTheLastLayerBehindActivations) {
  const std::string text = sequential(
      R"({"class_name": "Dense", "config": {"name": "a", "units": 12}},
         {"class_name": "Dense", "config": {"name": "b", "units": 10, "use_bias": false,
          "activation": "linear"}},
         {"class_name": "Dropout", "config": {"name": "d"}},
         {"class_name": "Softmax", "config": {"name": "c", "axis": -1},
          "build_config": {"input_shape": [null, 10]}})");
  const KerasHead head = head_of(text);
  EXPECT_EQ(head.names, std::vector<std::string>{"b"});
  EXPECT_EQ(head.folder, "layers/dense_1");
  EXPECT_EQ(head.units, 10U);
  EXPECT_FALSE(head.bias);
  EXPECT_FALSE(head.shift_shows);
  EXPECT_EQ(head.activation, "softmax");
  // The units, and the shape of what comes behind.
  ASSERT_EQ(head.counts.size(), 2U);
  for (const JsonPlace& place : head.counts) EXPECT_EQ(place.in(text), "10");
}

TEST(KerasConfig, GoesIntoModels) {
  const std::string inner = sequential(
      R"({"class_name": "Dense", "config": {"name": "a", "units": 3, "activation": "sigmoid"}})");
  const KerasHead head = head_of(sequential(
      R"({"class_name": "Sequential", "config": {"name": "first", "layers": []}},)" + inner));
  EXPECT_EQ(head.names, (std::vector<std::string>{"s", "a"}));
  EXPECT_EQ(head.folder, "layers/sequential_1/layers/dense");
  EXPECT_TRUE(head.shift_shows);
}

TEST(KerasConfig, RefusesWhatItDoesNotKnow) {
  const auto refusal = [](const std::string& text) {
    return std::string(error_of([&] { (void)head_of(text); }).what());
  };
  EXPECT_THAT(refusal("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("wanted Sequential"));
  EXPECT_THAT(refusal(sequential("")), HasSubstr("without layers"));
  EXPECT_THAT(refusal(sequential(R"({"class_name": "Softmax", "config": {"axis": 0}})")),
              HasSubstr("along axis 0"));
  EXPECT_THAT(refusal(sequential(R"({"class_name": "Softmax", "config": {"name": "x"}})")),
              HasSubstr("no Dense layer"));
  EXPECT_THAT(refusal(sequential(R"({"class_name": "Dense", "config": {"units": "many"}})")),
              HasSubstr("how many classes"));
  EXPECT_THAT(refusal(sequential(R"({"class_name": "Dense", "config": {"units": 3,
                                     "lora_rank": 4}})")),
              HasSubstr("LoRA"));
  EXPECT_THAT(refusal(sequential("7")), HasSubstr("a layer that is none"));
}

TEST(KerasConfig, NumbersKeepTheirLength) {
  EXPECT_EQ(padded_number(9, 2), " 9");
  EXPECT_EQ(padded_number(99, 3), " 99");
  EXPECT_EQ(padded_number(12, 2), "12");
}

}  // namespace
}  // namespace oubli
