#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace oubli::report {

// A picture of 1200 x 630 pixels, lines of text one below the other, to be shown elsewhere.
struct Card {
  struct Line {
    int y = 0;  // of the line the letters stand on
    int size = 0;
    std::uint32_t colour = 0;  // 0xrrggbb
    std::string text = {};     // UTF-8
  };
  static constexpr int kWidth = 1200, kHeight = 630, kLeft = 64;
  std::vector<Line> lines = {};
};

[[nodiscard]] std::string svg(const Card& card);

// In the letters of `font`, a TrueType file that is trusted; Error{bad_input} if it is none.
// Characters that it lacks are shown as its empty box.
[[nodiscard]] std::string png(const Card& card, const std::filesystem::path& font);

// The font of PNG cards where Debian's fonts-dejavu-core and others put it; none if it is not
// installed.
[[nodiscard]] std::optional<std::filesystem::path> card_font();

}  // namespace oubli::report
