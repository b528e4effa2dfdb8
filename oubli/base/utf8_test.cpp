#include "oubli/base/utf8.h"

#include <gtest/gtest.h>

#include <array>

#include "oubli/base/json.h"

namespace oubli {
namespace {

// Whether it is a sequence of code points.
bool is_well_formed(std::string_view text) {
  while (!text.empty()) {
    const CodePoint first = first_code_point(text);
    if (first.bytes == 0) return false;
    text.remove_prefix(first.bytes);
  }
  return true;
}

TEST(Utf8, EveryCodePointIsReadAsItWasWritten) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    std::string text;
    append_utf8(text, code);
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    const CodePoint read = first_code_point(text + "\x80");
    ASSERT_EQ(read.bytes, surrogate ? 0 : text.size()) << std::hex << std::uint32_t{code};
    ASSERT_EQ(read.value, surrogate ? 0 : code);
  }
}

// The oracle is the JSON library's own decoder, a table of states.
TEST(Utf8, WellFormedIsWhatTheJsonLibraryTakes) {
  constexpr std::array<unsigned, 6> kLater{0x00, 0x7F, 0x80, 0xBF, 0xC0, 0xFF};
  std::string text;
  const auto check = [&] {
    ASSERT_EQ(is_well_formed(text), is_utf8(text)) << ::testing::PrintToString(text);
  };
  for (unsigned first = 0; first < 256; ++first)
    for (unsigned second = 0; second < 256; ++second) {
      text = {static_cast<char>(first), static_cast<char>(second)};
      check();
      if (first < 0xE0) continue;
      for (const unsigned third : kLater) {
        text.resize(2);
        text.push_back(static_cast<char>(third));
        check();
        for (const unsigned fourth : kLater) {
          text.resize(3);
          text.push_back(static_cast<char>(fourth));
          check();
        }
      }
    }
}

TEST(Utf8, NothingBeginsWithNothing) { EXPECT_EQ(first_code_point("").bytes, 0U); }

}  // namespace
}  // namespace oubli
