#include "oubli/report/svg.h"

#include "oubli/base/error.h"
#include "oubli/base/text_table.h"

namespace oubli::report {
namespace {

constexpr double kCharacter = 6.6;  // pixels at 12 px, a little above the average

// The first `count` code points of `text`.
std::string_view first_code_points(std::string_view text, std::size_t count) {
  std::size_t i = 0;
  for (std::size_t seen = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U && seen++ == count) break;
  return text.substr(0, i);
}

}  // namespace

double text_width(std::string_view text) {
  return kCharacter * static_cast<double>(display_width(text));
}

void Canvas::line(double x1, double y1, double x2, double y2, std::string_view css) {
  body_ += fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>)", x1,
                       y1, x2, y2, css);
}

void Canvas::rect(double x, double y, double width, double height, std::string_view css) {
  body_ += fmt::format(
      R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1.5" class="{}"/>)", x, y,
      width, height, css);
}

void Canvas::marker(double x, double y, int style) {
  const auto shape = [&]() -> std::string {
    const auto polygon = [&](std::string_view path) {
      return fmt::format(R"svg(<path transform="translate({:.1f} {:.1f})" d="{}" )svg", x, y, path);
    };
    switch (style) {
      case 1:
        return polygon("M-4.3-4.3h8.6v8.6h-8.6z");
      case 2:
        return polygon("M0-5.4l5.2 9.4h-10.4z");
      case 3:
        return polygon("M0-6l6 6-6 6-6-6z");
      case 4:
        return polygon("M-4.5-4.5l9 9M4.5-4.5l-9 9");
      default:
        return fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="4.8" )", x, y);
    }
  };
  body_ += fmt::format(R"({}class="m s{}"/>)", shape(), style);
}

void Canvas::text(double x, double y, std::string_view text, std::string_view css, Anchor anchor) {
  static constexpr std::string_view kAnchors[] = {"start", "middle", "end"};
  body_ += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>)", x, y,
                       kAnchors[static_cast<int>(anchor)], css, escape(text));
}

void Canvas::text_within(double x, double y, double room, const std::string& words,
                         std::string_view css) {
  constexpr double kSqueezed = 1.25;  // letters may be so much narrower, and are read all the same
  const double width = text_width(words);
  if (width <= room) return text(x, y, words, css);
  if (width <= kSqueezed * room) {
    body_ += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" class="{}" textLength="{:.1f}" )"
                         R"(lengthAdjust="spacingAndGlyphs">{}</text>)",
                         x, y, css, room, escape(words));
    return;
  }
  // Names in capitals or with many wide letters are wider than the average.
  const auto count = static_cast<std::size_t>(room / (1.12 * kCharacter));
  body_ +=
      fmt::format(R"(<text x="{:.1f}" y="{:.1f}" class="{}">{}…<title>{}</title></text>)", x, y,
                  css, escape(first_code_points(words, count > 1 ? count - 1 : 1)), escape(words));
}

std::string Canvas::finish(double height, std::string_view title, std::string_view description,
                           std::string_view css) const {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" class="{}" role="img" viewBox="0 0 {:.0f} {:.0f}" )"
      R"(width="{:.0f}" height="{:.0f}" aria-label="{}. {}"><desc>{}</desc>{}</svg>)"
      "\n",
      css, width_, height, width_, height, escape(title), escape(description), escape(description),
      body_);
}

}  // namespace oubli::report
