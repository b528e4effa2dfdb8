#include "oubli/inversion/sheet.h"

#include <gtest/gtest.h>

#include <memory>

#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#include <stb_image.h>

namespace oubli {
namespace {

struct Decoded {
  std::size_t width, height;
  std::vector<std::uint8_t> rgb;
  [[nodiscard]] int red(std::size_t x, std::size_t y) const { return rgb[3 * (y * width + x)]; }
  [[nodiscard]] int blue(std::size_t x, std::size_t y) const {
    return rgb[3 * (y * width + x) + 2];
  }
};

Decoded decode(const std::string& png) {
  int width = 0;
  int height = 0;
  int channels = 0;
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load_from_memory(reinterpret_cast<const stbi_uc*>(png.data()),
                            static_cast<int>(png.size()), &width, &height, &channels, 3),
      stbi_image_free);
  if (!pixels) throw std::runtime_error("not a PNG");
  const auto count = static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3;
  return {static_cast<std::size_t>(width),
          static_cast<std::size_t>(height),
          {pixels.get(), pixels.get() + count}};
}

TEST(EncodePng, RoundTrip) {
  std::vector<std::uint8_t> rgb(3 * 5 * 4);
  for (std::size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<std::uint8_t>(i * 37);
  const Decoded back = decode(encode_png(5, 4, rgb));
  EXPECT_EQ(back.width, 5U);
  EXPECT_EQ(back.height, 4U);
  EXPECT_EQ(back.rgb, rgb);
}

TEST(Sheet, TilesHaveTheirPixelsAndFrames) {
  Sheet sheet;
  sheet.height = 2;
  sheet.width = 2;
  sheet.column_titles = {"", ""};
  sheet.row_titles = {""};
  sheet.rows = {{{{0, 1, 1, 0}, false}, {{0, 0, 0, 0}, true}}};
  const Decoded back = decode(to_png(sheet, 10));
  // 12 + 20 + 12 + 20 + 12 across; a line of titles (24) and a gap, the tile and a gap down.
  ASSERT_EQ(back.width, 76U);
  ASSERT_EQ(back.height, 68U);
  EXPECT_EQ(back.red(12, 36), 0);
  EXPECT_EQ(back.red(22, 36), 255);
  EXPECT_EQ(back.red(31, 55), 0);
  EXPECT_EQ(back.red(11, 36), 255);  // no frame
  EXPECT_EQ(back.red(39, 36), 255);  // between
  EXPECT_EQ(back.red(40, 36), 213);  // the frame's vermilion
  EXPECT_EQ(back.blue(40, 36), 0);
  EXPECT_EQ(back.red(44, 36), 0);
}

TEST(Sheet, ColoursAndWordsAreDrawn) {
  Sheet sheet;
  sheet.channels = 3;
  sheet.height = 1;
  sheet.width = 1;
  sheet.column_titles = {"\xC3\xA9\x1b"};  // no shapes in the font: still no crash
  sheet.row_titles = {"row"};
  sheet.rows = {{{{1, 0, 0.5F}, false}}};
  const Decoded back = decode(to_png(sheet, 8));
  int dark = 0;
  for (std::size_t y = 0; y < back.height; ++y)
    for (std::size_t x = 0; x < 40; ++x) dark += back.red(x, y) < 100 ? 1 : 0;
  EXPECT_GT(dark, 20);
  bool found = false;
  for (std::size_t i = 0; i + 2 < back.rgb.size(); i += 3)
    found = found || (back.rgb[i] == 255 && back.rgb[i + 1] == 0 && back.rgb[i + 2] == 128);
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace oubli
