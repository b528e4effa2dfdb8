#include "oubli/model/huggingface/config.h"

#include <nlohmann/json.hpp>

#include "oubli/base/json.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

const std::vector<std::size_t> kKept{0, 2, 3};

// The text with class 1 gone must be the document that a person would write, and only that.
void expect_cut(const std::string& text, const Json& expected) {
  const FolderConfig config(text, "config.json");
  EXPECT_EQ(config.classes(), 4U);
  const std::string cut = config.without(kKept);
  EXPECT_EQ(parse_json(cut, "cut"), expected) << cut;
}

TEST(FolderConfig, CutsTransformers) {
  const std::string text = R"({
  "architectures": ["ViTForImageClassification"],
  "hidden_size": 4,
  "id2label": {
    "0": "ant",
    "1": "golden retriever",
    "2": "cat",
    "3": "4"
  },
  "label2id": {"4": 3, "ant": 0, "cat": 2, "golden retriever": 1},
  "num_labels": 4,
  "transformers_version": "4.44.0"
}
)";
  const FolderConfig config(text, "config.json");
  EXPECT_EQ(config.names(), (std::vector<std::string>{"ant", "golden retriever", "cat", "4"}));
  EXPECT_EQ(config.architecture(), "ViTForImageClassification");
  EXPECT_FALSE(config.multi_label());
  Json expected = Json::parse(text);
  expected["id2label"] = Json::parse(R"({"0": "ant", "1": "cat", "2": "4"})");
  expected["label2id"] = Json::parse(R"({"4": 2, "ant": 0, "cat": 1})");
  expected["num_labels"] = 3;
  expect_cut(text, expected);
  // What does not count classes stays as it is spelled.
  EXPECT_THAT(config.without(kKept), HasSubstr("\"hidden_size\": 4,\n  \"id2label\": {\n"));
}

TEST(FolderConfig, CutsTimm) {
  const std::string text = R"({"architecture": "resnet50", "num_classes": 4, "num_features": 4,
 "label_names": ["n01", "n02", "n03", "n04"],
 "label_descriptions": {"n01": "ant", "n02": "bee, \"a\" wasp", "n03": "cat", "n04": "dog"},
 "pretrained_cfg": {"classifier": "head.fc", "num_classes": 4, "mean": [0.5]}})";
  const FolderConfig config(text, "config.json");
  EXPECT_EQ(config.classifier(), "head.fc");
  EXPECT_EQ(config.names()[3], "n04");
  Json expected = Json::parse(text);
  expected["num_classes"] = 3;
  expected["pretrained_cfg"]["num_classes"] = 3;
  expected["label_names"] = {"n01", "n03", "n04"};
  expected["label_descriptions"].erase("n02");
  expect_cut(text, expected);
}

TEST(FolderConfig, RefusesWhatContradictsItself) {
  const auto refusal = [](const std::string& text) {
    const Error error = error_of([&] { (void)FolderConfig(text, "config.json"); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return std::string(error.what());
  };
  EXPECT_THAT(refusal(R"({"id2label": {"0": "a", "1": "b"}, "num_labels": 3})"),
              HasSubstr("2 classes, and 3"));
  EXPECT_THAT(refusal(R"({"id2label": {"0": "a", "1": "b"}, "label2id": {"b": 0, "a": 1}})"),
              HasSubstr("do not agree"));
  EXPECT_THAT(refusal(R"({"id2label": "many"})"), HasSubstr("no list of names"));
  EXPECT_THAT(refusal("[]"), HasSubstr("no configuration"));
  EXPECT_THAT(refusal("{"), HasSubstr("not valid JSON"));
}

TEST(FolderConfig, IndexCountsLess) {
  const std::string text =
      R"({"metadata": {"total_size": 1000, "total_parameters": 250}, "weight_map": {"a": "b"}})";
  Json expected = Json::parse(text);
  expected["metadata"]["total_size"] = 960;
  expected["metadata"]["total_parameters"] = 240;
  EXPECT_EQ(parse_json(shrunk_index(text, 40, 10, "index"), "index"), expected);
  EXPECT_THAT(error_of([&] { (void)shrunk_index(text, 2000, 10, "index"); }).what(),
              HasSubstr("less than"));
}

}  // namespace
}  // namespace oubli
