#include "oubli/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_THAT(refusal("{"), ::testing::StartsWith("x.json: not valid JSON"));
  EXPECT_THAT(refusal("\"\xFF\""), ::testing::HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(""), ::testing::HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(R"({"a": 1e999})"), ::testing::HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(std::string(100, '[') + std::string(100, ']')), ::testing::HasSubstr("deep"));
  EXPECT_THAT(refusal(std::string(1'000'000, '[')), ::testing::HasSubstr("deep"));
  (void)parse_json(std::string(60, '[') + std::string(60, ']'), "");
}

}  // namespace
}  // namespace oubli
