#include "oubli/base/count.h"

#include "tests/test_support.h"

namespace oubli {
namespace {

TEST(ParseCount, TakesDigitsInRange) {
  EXPECT_EQ(parse_count("0"), 0U);
  EXPECT_EQ(parse_count("10"), 10U);
  EXPECT_EQ(parse_count("18446744073709551615"), kLargestCount);
  EXPECT_EQ(parse_count("5", 5, 7), 5U);
  EXPECT_EQ(parse_count("7", 5, 7), 7U);
}

TEST(ParseCount, TakesNothingElse) {
  for (const char* const word :
       {"", " ", "-1", "+1", "010", "00", "0x10", "1.0", "2.5", "1e3", "1 ", " 1", "1,2", "1'000",
        "18446744073709551616", "99999999999999999999999", "nan", "ten", "١"})
    EXPECT_EQ(parse_count(word), std::nullopt) << word;
  for (const char* const word : {"0", "4", "8", "18446744073709551615"})
    EXPECT_EQ(parse_count(word, 5, 7), std::nullopt) << word;
}

TEST(ParseDigits, TakesLeadingZerosAndNothingElse) {
  EXPECT_EQ(parse_digits("010"), 10U);
  EXPECT_EQ(parse_digits("18446744073709551615"), kLargestCount);
  for (const char* const wrong : {"", "-1", "+1", " 1", "1 ", "1.0", "0x1", "18446744073709551616"})
    EXPECT_EQ(parse_digits(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace oubli
