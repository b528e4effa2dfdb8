#include "oubli/base/json.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "oubli/base/error.h"

namespace oubli {
namespace {

std::string refusal(const std::string& text) {
  try {
    (void)parse_json(text, "x.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "no error";
}

TEST(ParseJson, KeepsOrderAndRefusesWhatIsAmbiguousOrDeep) {
  EXPECT_EQ(parse_json(R"({"b": {"a": 1}, "a": [{"a": 2}, {"a": 3}]})", "").dump(),
            R"({"b":{"a":1},"a":[{"a":2},{"a":3}]})");
  EXPECT_THAT(refusal(R"({"a": 1, "b": {"c": 1, "c": 2}})"),
              ::testing::HasSubstr("'c' is there twice"));
  EXPECT_THAT(refusal("{"), ::testing::StartsWith("x.json: not valid JSON: parse error at line 1"));
  EXPECT_THAT(refusal("\"\xFF\""), ::testing::HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(""), ::testing::HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(R"({"a": 1e999})"), ::testing::HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(std::string(100, '[') + std::string(100, ']')), ::testing::HasSubstr("deep"));
  EXPECT_THAT(refusal(std::string(1'000'000, '[')), ::testing::HasSubstr("deep"));
  (void)parse_json(std::string(60, '[') + std::string(60, ']'), "");
}

TEST(ParseJson, NothingMayFollow) {
  const std::string document = R"({"a": 1})";
  for (const std::string& rest : {std::string(" x"), std::string(1, '\0'), std::string("\0 x", 3),
                                  std::string("{}"), std::string(",")})
    EXPECT_THAT(refusal(document + rest), ::testing::HasSubstr("not valid JSON"));
  EXPECT_EQ(parse_json(document + " \n", "").dump(), R"({"a":1})");
}

// Twice the keys take twice the time, not four times; the best of several runs of each.
TEST(ParseJson, TakesTimeInProportion) {
  const auto seconds = [](std::size_t keys) {
    std::string text = "{\"k\": 0";
    for (std::size_t i = 0; i < keys; ++i) text += fmt::format(", \"key{}\": {}", i, i);
    text += "}";
    double best = 1e9;
    for (int run = 0; run < 5; ++run) {
      const std::clock_t begin = std::clock();
      EXPECT_EQ(parse_json(text, "").size(), keys + 1);
      best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return best;
  };
  const double once = seconds(50'000);
  EXPECT_LT(seconds(100'000), 3 * once);
}

TEST(ToText, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(to_text(nlohmann::ordered_json{{"b", "\xFF"}, {"a", "caf\u00e9"}}, -1),
            "{\"b\":\"\uFFFD\",\"a\":\"caf\u00e9\"}");
  EXPECT_EQ(to_text(nlohmann::json{{"b", 1}, {"a", "h\xE9.npz"}}, 1),
            "{\n \"a\": \"h\uFFFD.npz\",\n \"b\": 1\n}");
  EXPECT_TRUE(is_utf8("caf\u00e9"));
  EXPECT_FALSE(is_utf8("caf\xE9"));
}

TEST(WholeNumber, IsNeitherAFractionNorNegativeNorTooLarge) {
  const auto number = [](const char* text) { return whole_number(nlohmann::json::parse(text)); };
  EXPECT_EQ(number("0"), 0U);
  EXPECT_EQ(number("18446744073709551615"), 18446744073709551615U);
  EXPECT_EQ(whole_number(nlohmann::json(7)), 7U);  // an int of ours is signed, and as good
  for (const char* text : {"2.5", "2.0", "-1", "1e30", "-1e30", "18446744073709551616", "true",
                           "\"1\"", "null", "[1]", "{}"})
    EXPECT_THROW((void)number(text), nlohmann::json::type_error) << text;
  EXPECT_THROW((void)whole_number<std::uint32_t>(nlohmann::json(4294967296U)),
               nlohmann::json::type_error);
  EXPECT_EQ(whole_number<std::uint32_t>(nlohmann::json(4294967295U)), 4294967295U);
  EXPECT_EQ(whole_numbers(nlohmann::json::parse("[3, 4]")), (std::vector<std::size_t>{3, 4}));
  EXPECT_THROW((void)whole_numbers(nlohmann::json::parse("[3, 4.5]")), nlohmann::json::type_error);
  EXPECT_THROW((void)whole_numbers(nlohmann::json::parse("3")), nlohmann::json::type_error);
}

}  // namespace
}  // namespace oubli
