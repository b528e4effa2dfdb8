#include "oubli/report/card.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/utf8.h"
#include "oubli/inversion/sheet.h"
#include "oubli/report/html.h"

#define STBTT_STATIC
#define STB_TRUETYPE_IMPLEMENTATION
#include <stb_truetype.h>

namespace oubli::report {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kPaper = 0xfcfcfa, kEdge = 0x00568a;
constexpr int kEdgeWidth = 16;

std::uint8_t channel(std::uint32_t colour, int which) {
  return static_cast<std::uint8_t>(colour >> (16 - 8 * which));
}

// The characters of a UTF-8 text; bytes that are none become U+FFFD.
std::vector<int> characters(std::string_view text) {
  std::vector<int> found;
  while (!text.empty()) {
    const CodePoint first = first_code_point(text);
    found.push_back(first.bytes == 0 ? 0xfffd : static_cast<int>(first.value));
    text.remove_prefix(std::max<std::size_t>(1, first.bytes));
  }
  return found;
}

class Picture {
 public:
  Picture() : rgb_(std::size_t{3} * Card::kWidth * Card::kHeight) {
    for (int y = 0; y < Card::kHeight; ++y)
      for (int x = 0; x < Card::kWidth; ++x) blend(x, y, x < kEdgeWidth ? kEdge : kPaper, 255);
  }
  void blend(int x, int y, std::uint32_t colour, unsigned share) {
    if (x < 0 || x >= Card::kWidth || y < 0 || y >= Card::kHeight) return;
    const std::size_t at = std::size_t{3} * static_cast<std::size_t>(y * Card::kWidth + x);
    for (int c = 0; c < 3; ++c) {
      std::uint8_t& value = rgb_[at + static_cast<std::size_t>(c)];
      value = static_cast<std::uint8_t>((value * (255 - share) + channel(colour, c) * share + 127) /
                                        255);
    }
  }
  void letters(const stbtt_fontinfo& font, const Card::Line& line) {
    // As browsers do: the size is that of the em square.
    const float scale = stbtt_ScaleForMappingEmToPixels(&font, static_cast<float>(line.size));
    float x = Card::kLeft;
    for (const int character : characters(line.text)) {
      const float whole = std::floor(x);
      int left = 0, top = 0, width = 0, height = 0, advance = 0, bearing = 0;
      unsigned char* const shape = stbtt_GetCodepointBitmapSubpixel(
          &font, scale, scale, x - whole, 0, character, &width, &height, &left, &top);
      for (int i = 0; i < height; ++i)
        for (int j = 0; j < width; ++j)
          blend(static_cast<int>(whole) + left + j, line.y + top + i, line.colour,
                shape[i * width + j]);
      stbtt_FreeBitmap(shape, nullptr);
      stbtt_GetCodepointHMetrics(&font, character, &advance, &bearing);
      x += scale * static_cast<float>(advance);
    }
  }
  [[nodiscard]] std::string png() const { return encode_png(Card::kWidth, Card::kHeight, rgb_); }

 private:
  std::vector<std::uint8_t> rgb_;
};

}  // namespace

std::string svg(const Card& card) {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#{2:06x}\"/>\n"
      "<rect width=\"{3}\" height=\"{1}\" fill=\"#{4:06x}\"/>\n",
      Card::kWidth, Card::kHeight, kPaper, kEdgeWidth, kEdge);
  for (const Card::Line& line : card.lines)
    out += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"#{:06x}\">{}</text>\n",
                       Card::kLeft, line.y, line.size, line.colour, escape(line.text));
  return out + "</svg>\n";
}

std::string png(const Card& card, const fs::path& font) {
  const std::string file = read_text_file(font);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(file.data());
  stbtt_fontinfo info;
  if (file.size() < 12 || stbtt_GetFontOffsetForIndex(bytes, 0) < 0 ||
      stbtt_InitFont(&info, bytes, stbtt_GetFontOffsetForIndex(bytes, 0)) == 0)
    fail(ErrorCode::bad_input, "{}: is no TrueType font", font.string());
  Picture picture;
  for (const Card::Line& line : card.lines) picture.letters(info, line);
  return picture.png();
}

std::optional<fs::path> card_font() {
  for (const char* const place :
       {"/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
        "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf", "/usr/share/fonts/TTF/DejaVuSans.ttf"})
    if (std::error_code unreadable; fs::is_regular_file(place, unreadable)) return place;
  return std::nullopt;
}

}  // namespace oubli::report
