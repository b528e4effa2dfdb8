#include "oubli/inversion/sheet.h"

#include <stb_easy_font.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "oubli/base/error.h"

#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb_image_write.h>

namespace oubli {
namespace {

using Colour = std::array<std::uint8_t, 3>;
constexpr Colour kInk{40, 44, 52};
constexpr Colour kFrame{213, 94, 0};  // vermilion of Okabe and Ito
constexpr std::size_t kGap = 12;
constexpr std::size_t kFrameWidth = 4;
constexpr std::size_t kWideGap = 28;
constexpr std::size_t kTextScale = 2;
constexpr std::size_t kLineHeight = 12 * kTextScale;

// The font has shapes for these alone, and is read out of bounds for others.
std::string printable(std::string words) {
  for (char& c : words)
    if (c < ' ' || c > '~') c = '?';
  return words;
}

class Picture {
 public:
  Picture(std::size_t width, std::size_t height)
      : width_(width), height_(height), rgb_(3 * width * height, 255) {}

  void fill(std::size_t x, std::size_t y, std::size_t width, std::size_t height, Colour colour) {
    for (std::size_t i = y; i < std::min(y + height, height_); ++i)
      for (std::size_t j = x; j < std::min(x + width, width_); ++j)
        std::ranges::copy(colour, rgb_.begin() + static_cast<std::ptrdiff_t>(3 * (i * width_ + j)));
  }

  // Only ASCII has shapes in this font; other characters are shown as '?'.
  void text(std::size_t x, std::size_t y, std::string words, Colour colour) {
    words = printable(std::move(words));
    struct Vertex {
      float x, y, z;
      std::array<std::uint8_t, 4> colour;
    };
    std::vector<Vertex> vertices(words.size() * 70);  // 270 bytes per character, says the header
    const int quads = stb_easy_font_print(0, 0, words.data(), nullptr, vertices.data(),
                                          static_cast<int>(vertices.size() * sizeof(Vertex)));
    for (std::size_t q = 0; q < static_cast<std::size_t>(quads); ++q) {
      const Vertex& a = vertices[4 * q];
      const Vertex& c = vertices[4 * q + 2];
      const auto pixel = [](float v) {
        return static_cast<std::size_t>(std::lround(v)) * kTextScale;
      };
      fill(x + pixel(a.x), y + pixel(a.y), pixel(c.x) - pixel(a.x), pixel(c.y) - pixel(a.y),
           colour);
    }
  }

  [[nodiscard]] std::string png() const { return encode_png(width_, height_, rgb_); }

 private:
  std::size_t width_;
  std::size_t height_;
  std::vector<std::uint8_t> rgb_;
};

std::size_t text_pixels(std::string words) {
  words = printable(std::move(words));
  return kTextScale * static_cast<std::size_t>(stb_easy_font_width(words.data()));
}

void draw_tile(Picture& picture, const Sheet& sheet, const Sheet::Tile& tile, std::size_t x,
               std::size_t y, std::size_t scale) {
  const std::size_t plane = sheet.height * sheet.width;
  OUBLI_ASSERT(tile.pixels.size() == sheet.channels * plane);
  if (tile.framed)
    picture.fill(x - kFrameWidth, y - kFrameWidth, sheet.width * scale + 2 * kFrameWidth,
                 sheet.height * scale + 2 * kFrameWidth, kFrame);
  for (std::size_t i = 0; i < sheet.height; ++i) {
    for (std::size_t j = 0; j < sheet.width; ++j) {
      Colour colour{};
      for (std::size_t c = 0; c < 3; ++c) {
        const float v = tile.pixels[(sheet.channels == 3 ? c : 0) * plane + i * sheet.width + j];
        colour[c] = static_cast<std::uint8_t>(std::lround(255 * std::clamp(v, 0.0F, 1.0F)));
      }
      picture.fill(x + j * scale, y + i * scale, scale, scale, colour);
    }
  }
}

}  // namespace

std::string encode_png(std::size_t width, std::size_t height, std::span<const std::uint8_t> rgb) {
  OUBLI_ASSERT(rgb.size() == 3 * width * height);
  std::string out;
  const auto append = [](void* context, void* data, int size) {
    static_cast<std::string*>(context)->append(static_cast<const char*>(data),
                                               static_cast<std::size_t>(size));
  };
  if (stbi_write_png_to_func(append, &out, static_cast<int>(width), static_cast<int>(height), 3,
                             rgb.data(), static_cast<int>(3 * width)) == 0)
    fail(ErrorCode::io, "out of memory while writing a {} x {} picture", width, height);
  return out;
}

std::string to_png(const Sheet& sheet, std::size_t scale) {
  OUBLI_ASSERT(sheet.rows.size() == sheet.row_titles.size());
  OUBLI_ASSERT(sheet.channels == 1 || sheet.channels == 3);
  const std::size_t tile_width = sheet.width * scale;
  const std::size_t tile_height = sheet.height * scale;
  std::size_t label = 0;
  for (const std::string& title : sheet.row_titles) label = std::max(label, text_pixels(title));

  std::vector<std::size_t> left;  // of each column
  std::size_t x = label + (label > 0 ? 2 * kGap : kGap);
  std::size_t title_end = 0;
  for (std::size_t j = 0; j < sheet.column_titles.size(); ++j) {
    if (std::ranges::find(sheet.gap_before, j) != sheet.gap_before.end()) x += kWideGap;
    // A title reaches over untitled columns to its right; the next titled one keeps clear of it.
    const std::string& title = sheet.column_titles[j];
    if (!title.empty()) {
      x = std::max(x, title_end);
      title_end = x + text_pixels(title) + kGap;
    }
    left.push_back(x);
    x += tile_width + kGap;
  }
  x = std::max(x, title_end);
  const std::size_t head = kLineHeight + kGap;
  Picture picture(x, head + sheet.rows.size() * (tile_height + kGap));
  for (std::size_t j = 0; j < left.size(); ++j)
    picture.text(left[j], kGap, sheet.column_titles[j], kInk);
  for (std::size_t i = 0; i < sheet.rows.size(); ++i) {
    OUBLI_ASSERT(sheet.rows[i].size() == left.size());
    const std::size_t y = head + i * (tile_height + kGap);
    picture.text(kGap, y + tile_height / 2 - kLineHeight / 3, sheet.row_titles[i], kInk);
    for (std::size_t j = 0; j < left.size(); ++j)
      if (!sheet.rows[i][j].pixels.empty())
        draw_tile(picture, sheet, sheet.rows[i][j], left[j], y, scale);
  }
  return picture.png();
}

}  // namespace oubli
