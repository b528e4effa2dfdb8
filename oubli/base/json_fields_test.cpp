#include "oubli/base/json_fields.h"

#include <gtest/gtest.h>

namespace oubli {
namespace {

using nlohmann::json;

struct Inner {
  std::vector<double> numbers;
};
void from_json(const json& in, Inner& inner) { require_field(in, "numbers", inner.numbers); }

struct Outer {
  std::string name = "none";
  std::optional<std::uint32_t> count;
  bool flag = true;
  std::vector<Inner> inner;
};
void from_json(const json& in, Outer& outer) {
  read_field(in, "name", outer.name);
  read_field(in, "count", outer.count);
  read_field(in, "flag", outer.flag);
  read_field(in, "inner", outer.inner);
}

std::string message_of(const char* text) {
  try {
    (void)json::parse(text).get<Outer>();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "no error";
}

TEST(JsonFields, ReadWhatIsThereAndKeepTheRest) {
  const auto outer =
      json::parse(R"({"count": 3, "flag": null, "inner": [{"numbers": [1, 2.5]}]})").get<Outer>();
  EXPECT_EQ(outer.name, "none");
  EXPECT_EQ(outer.count, 3U);
  EXPECT_TRUE(outer.flag);
  EXPECT_EQ(outer.inner.at(0).numbers, (std::vector<double>{1, 2.5}));
  EXPECT_FALSE(json::parse("{}").get<Outer>().count);
}

TEST(JsonFields, NameThePlace) {
  EXPECT_EQ(message_of("[]"), ": array where an object is wanted");
  EXPECT_EQ(message_of(R"({"name": 3})"), "name: 3 where text is wanted");
  EXPECT_EQ(message_of(R"({"flag": 1})"), "flag: 1 where true or false is wanted");
  EXPECT_EQ(message_of(R"({"count": -1})"),
            "count: -1 where a whole number from 0 to 4294967295 is wanted");
  EXPECT_EQ(message_of(R"({"count": 4294967296})"),
            "count: 4294967296 where a whole number from 0 to 4294967295 is wanted");
  EXPECT_EQ(message_of(R"({"inner": {}})"), "inner: object where a list is wanted");
  EXPECT_EQ(message_of(R"({"inner": [{"numbers": []}, {}]})"),
            "inner[1].numbers: nothing where a list is wanted");
  EXPECT_EQ(message_of(R"({"inner": [null]})"), "inner[0]: nothing where an object is wanted");
  EXPECT_EQ(message_of(R"({"inner": [{"numbers": [0, "1"]}]})"),
            "inner[0].numbers[1]: string where a number is wanted");
}

TEST(JsonFields, DocumentsWithManyKeysAreReadInTime) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += fmt::format("\"{}\":0,", i);
  text += "\"name\":\"last\"}";
  // Quadratic, this takes minutes.
  EXPECT_EQ(parse_document(text, "x").get<Outer>().name, "last");
}

}  // namespace
}  // namespace oubli
