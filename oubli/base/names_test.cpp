#include "oubli/base/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oubli/base/error.h"

namespace oubli {
namespace {

TEST(NearestNames, ByEditDistance) {
  const std::vector<std::string> names{"bob", "alice", "alicia", "carol"};
  EXPECT_THAT(nearest_names("alcie", names, 2), ::testing::ElementsAre("alice", "alicia"));
  EXPECT_THAT(nearest_names("x", {}, 2), ::testing::IsEmpty());
}

template <typename Action>
std::string refusal(ErrorCode code, Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "no error";
}

TEST(ClassNamed, ByNameThenByIndex) {
  const std::vector<std::string> names{"bob", "0", "alice"};
  EXPECT_EQ(class_named("alice", names, 3), 2U);
  EXPECT_THAT(refusal(ErrorCode::usage, [&] { (void)class_named("0", names, 3); }),
              ::testing::HasSubstr("name of class 1 and the index of class 0"));
  EXPECT_EQ(class_named("name:0", names, 3), 1U);
  EXPECT_EQ(class_named("index:0", names, 3), 0U);
  EXPECT_EQ(class_named("1", std::vector<std::string>{"0", "1", "2"}, 3), 1U) << "they agree";
  EXPECT_EQ(class_named("2", names, 3), 2U);
  EXPECT_EQ(class_named("2", {}, 3), 2U);
  EXPECT_EQ(class_label(2, names), "2 (alice)");
  EXPECT_EQ(class_label(2, {}), "2");
  EXPECT_THAT(refusal(ErrorCode::usage, [&] { (void)class_named("alcie", names, 3); }),
              ::testing::HasSubstr("did you mean alice"));
  for (const char* const word : {"3", "-1", "1x", "", "18446744073709551616"})
    EXPECT_THAT(refusal(ErrorCode::usage, [&] { (void)class_named(word, {}, 3); }),
                ::testing::HasSubstr("0 to 2"));
}

TEST(ParseClassNames, OneLineEach) {
  EXPECT_THAT(parse_class_names("\xEF\xBB\xBF"
                                "a\nb\n",
                                2, "n"),
              ::testing::ElementsAre("a", "b"));
  EXPECT_THAT(parse_class_names("a\r\nb c\nd\xC3\xA9j\xC3\xA0", 3, "n"),
              ::testing::ElementsAre("a", "b c", "d\xC3\xA9j\xC3\xA0"));
  for (const char* const text :
       {"a\nb", "a\n\nb\n", "a\na\nb\n", "a\nb\n\x1B[2J\n", "a\nb\n\xC0\x80", "a\nb\n\xED\xA0\x80",
        "a\nb\n\xF5\x80\x80\x80", "a\nb\n\xE2\x82"})
    EXPECT_THAT(
        refusal(ErrorCode::bad_input, [&] { (void)parse_class_names(text, 3, "names.txt"); }),
        ::testing::StartsWith("names.txt"));
}

}  // namespace
}  // namespace oubli
