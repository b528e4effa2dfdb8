#include "oubli/report/html.h"

#include <gtest/gtest.h>

namespace oubli::report {
namespace {

using enum TextTable::Align;

TEST(Escape, MarkupBecomesText) {
  EXPECT_EQ(escape("<script>alert('x')&\"</script>"),
            "&lt;script&gt;alert(&#39;x&#39;)&amp;&quot;&lt;/script&gt;");
  EXPECT_EQ(escape("Zoë, 张伟 \U0001F600"), "Zoë, 张伟 \U0001F600");
}

TEST(Escape, WhatIsNotTextIsReplaced) {
  EXPECT_EQ(escape(std::string_view("a\0b\x1b", 4)), "a\uFFFDb\uFFFD");
  EXPECT_EQ(escape("\xC3"), "\uFFFD");                                // cut short
  EXPECT_EQ(escape("\xC0\xBC"), "\uFFFD\uFFFD");                      // an overlong '<'
  EXPECT_EQ(escape("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");            // a surrogate
  EXPECT_EQ(escape("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // beyond U+10FFFF
  EXPECT_EQ(escape("one\ntwo\tthree"), "one two three");
}

TEST(Base64, Rfc4648Vectors) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foob"), "Zm9vYg==");
  EXPECT_EQ(base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

TEST(Table, CellsAreEscapedAndNumbersMarked) {
  const std::string text = html(TextTable({{"class"}, {"count", right}}, {{"<b>", "3"}, {}}));
  EXPECT_NE(text.find("<td>&lt;b&gt;</td><td class=\"n\">3</td>"), std::string::npos) << text;
  EXPECT_NE(text.find("<th>class</th><th class=\"n\">count</th>"), std::string::npos) << text;
}

TEST(Table, EmptyColumnsGo) {
  const TextTable table = without_empty_columns(
      TextTable({{"a"}, {"b", right}, {"c"}}, {{"1", "", ""}, {}, {"", "", "2"}}));
  ASSERT_EQ(table.columns.size(), 2U);
  EXPECT_EQ(table.columns[1].title, "c");
  EXPECT_EQ(table.rows[2], (std::vector<std::string>{"", "2"}));
}

}  // namespace
}  // namespace oubli::report
