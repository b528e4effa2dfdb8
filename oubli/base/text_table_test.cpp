#include "oubli/base/text_table.h"

#include <gtest/gtest.h>

namespace oubli {
namespace {

using enum TextTable::Align;

TextTable example() {
  TextTable table({{"method", left}, {"advantage", right}, {"note", left}});
  table.add_row({"naive", "0.54", "a|b"});
  table.add_rule();
  table.add_row({"né", "12.345678901"});
  return table;
}

TEST(TextTable, AlignsByCodePointAndLeavesNoTrailingSpace) {
  EXPECT_EQ(example().text(),
            "method     advantage  note\n"
            "------  ------------  ----\n"
            "naive           0.54  a|b\n"
            "------  ------------  ----\n"
            "né      12.345678901\n");
}

TEST(TextTable, WritesMarkdown) {
  EXPECT_EQ(example().markdown(),
            "| method | advantage | note |\n"
            "|---|---:|---|\n"
            "| naive | 0.54 | a\\|b |\n"
            "| né | 12.345678901 |  |\n");
}

TEST(TextTable, ControlCharactersCannotReachTheTerminal) {
  TextTable table({{"class\n", left}});
  table.add_row({"\x1b[2Jowned\r\n"});
  EXPECT_EQ(table.text(), "class?\n-----------\n?[2Jowned??\n");
}

TEST(TextTable, ATableWithoutRowsIsItsHead) {
  EXPECT_EQ(TextTable({{"a", left}, {"b", right}}).text(), "a  b\n-  -\n");
}

TEST(DisplayWidth, CountsCodePoints) {
  EXPECT_EQ(display_width(""), 0U);
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("\u00b1 \u20ac \U0001F600"), 5U);
}

TEST(Elided, CutsBetweenCodePoints) {
  EXPECT_EQ(elided("abc", 3), "abc");
  EXPECT_EQ(elided("abcd", 3), "abc…");
  EXPECT_EQ(elided("a\u00b1\u20ac\U0001F600", 2), "a\u00b1…");
  EXPECT_EQ(elided("", 0), "");
}

}  // namespace
}  // namespace oubli
