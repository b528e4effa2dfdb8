#include "oubli/base/json_place.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "oubli/base/json.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

// Every value of a document, found by its path, is what the JSON library finds there.
TEST(JsonPlace, FindsEveryValue) {
  const std::string text = R"( {"a": [1, {"b\"c": "x]},{", "d" : -2.5e3 }, [], {} , null],
    "key: with, signs": {"":true , "u\u006eits":10}, "z":[[[ "deep" ]]]} )";
  const auto document = parse_json(text, "text");
  std::size_t seen = 0;
  std::vector<std::string> path;
  const std::function<void(const nlohmann::ordered_json&)> visit = [&](const auto& value) {
    ++seen;
    const auto place = place_in_json(text, path);
    ASSERT_TRUE(place);
    EXPECT_EQ(parse_json(place->in(text), "part"), value);
    for (const auto& [key, member] : value.items()) {
      if (!value.is_structured()) break;
      path.push_back(key);
      visit(member);
      path.pop_back();
    }
  };
  visit(document);
  EXPECT_EQ(seen, 16U);
  for (const std::vector<std::string>& missing : std::vector<std::vector<std::string>>{
           {"b"}, {"a", "5"}, {"a", "x"}, {"a", "2", "0"}, {"a", "0", "0"}, {"z", "0", "0", "1"}})
    EXPECT_FALSE(place_in_json(text, missing));
}

TEST(JsonPlace, StaysInsideOfAnything) {
  const std::string text = R"({"a": [1, "b\"c", {"d": [2]}]})";
  const std::vector<std::string> path{"a", "2", "d", "0"};
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const auto place = place_in_json(std::string_view(text).substr(0, size), path);
    EXPECT_TRUE(!place || place->end <= size);
  }
}

}  // namespace
}  // namespace oubli
