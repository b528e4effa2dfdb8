#include "oubli/base/enum_names.h"

#include "tests/test_support.h"

namespace oubli {

enum class Fruit { apple, pear, quince };
template <>
struct EnumNames<Fruit> {
  static constexpr std::string_view kWhat = "fruit";
  static constexpr EnumName<Fruit> kTable[] = {
      {Fruit::apple, "apple"}, {Fruit::pear, "pear"}, {Fruit::quince, "quince"}};
};

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(EnumNames, GoBothWays) {
  EXPECT_THAT(all_values<Fruit>(), ElementsAre(Fruit::apple, Fruit::pear, Fruit::quince));
  for (const Fruit fruit : all_values<Fruit>()) {
    EXPECT_EQ(find_named<Fruit>(name_of(fruit)), fruit);
    EXPECT_EQ(value_named<Fruit>(name_of(fruit)), fruit);
  }
  EXPECT_EQ(find_named<Fruit>("Pear"), std::nullopt);
  EXPECT_EQ(find_named<Fruit>(""), std::nullopt);
}

TEST(EnumNames, ErrorsHaveTheNearestNameAndAll) {
  const Error error = testing::error_of([] { (void)value_named<Fruit>("bear"); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_THAT(error.what(), HasSubstr("no fruit is named 'bear'; did you mean pear?"));
  EXPECT_THAT(error.what(), HasSubstr("apple, pear or quince"));
}

TEST(EnumNames, ListsOfWords) {
  EXPECT_EQ(or_list(std::vector<std::string>{}), "");
  EXPECT_EQ(or_list(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(or_list(std::vector<std::string>{"a", "b"}), "a or b");
  EXPECT_EQ(or_list(std::vector<std::string>{"a", "b", "c"}), "a, b or c");
}

}  // namespace
}  // namespace oubli
