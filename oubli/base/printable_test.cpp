#include "oubli/base/printable.h"

#include <gtest/gtest.h>

#include "oubli/base/json.h"

namespace oubli {
namespace {

TEST(Printable, LeavesTextAndReplacesWhatCommandsATerminal) {
  EXPECT_EQ(printable("plain, \u00e4\u00df\u20ac \U0001F600"),
            "plain, \u00e4\u00df\u20ac \U0001F600");
  EXPECT_EQ(printable("a\x1b[31mred\x1b]0;title\x07"), "a?[31mred?]0;title?");
  EXPECT_EQ(printable("x\npassed    signature: ok\r\t"), "x?passed    signature: ok??");
  EXPECT_EQ(printable("\u009b31m\u202eabc\u2028d\u2066"), "?31m?abc?d?");
  EXPECT_EQ(printable(std::string_view("a\0b\x7f", 4)), "a?b?");
  EXPECT_EQ(line("{}: {}", "f\nile", 3), "f?ile: 3\n");
}

// Two bytes of any kind, and three that begin as a longer sequence does: against the JSON library,
// which knows UTF-8.
TEST(Printable, GivesUtf8WhateverTheBytes) {
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b)
      for (const std::string end : {std::string(), std::string("\x80"), std::string("\xBF\xBF")}) {
        const std::string text = std::string{static_cast<char>(a), static_cast<char>(b)} + end;
        const std::string shown = printable(text);
        ASSERT_TRUE(is_utf8(shown)) << a << ' ' << b;
        ASSERT_TRUE(is_utf8(text) || shown != text) << a << ' ' << b;
      }
}

}  // namespace
}  // namespace oubli
