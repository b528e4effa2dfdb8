#pragma once

#include <string>
#include <string_view>

#include "oubli/report/html.h"

namespace oubli::report {

// Collects SVG elements. Coordinates in pixels, y downwards. `css` arguments are our own class
// names; every other text is escaped.
class Canvas {
 public:
  explicit Canvas(double width) : width_(width) {}
  [[nodiscard]] double width() const { return width_; }

  void line(double x1, double y1, double x2, double y2, std::string_view css);
  void rect(double x, double y, double width, double height, std::string_view css);
  // Marker of series style 0..5 (circle, square, triangle, diamond, cross, ring) around (x, y).
  void marker(double x, double y, int style);
  enum class Anchor { start, middle, end };
  void text(double x, double y, std::string_view text, std::string_view css,
            Anchor anchor = Anchor::start);
  // text() within `room` pixels: a little too wide, its letters are narrower; else it is cut with
  // an ellipsis, and the whole text becomes a tooltip.
  void text_within(double x, double y, double room, const std::string& text, std::string_view css);

  // The picture: an image with a name and a text alternative.
  [[nodiscard]] std::string finish(double height, std::string_view title,
                                   std::string_view description,
                                   std::string_view css = "chart") const;

 private:
  double width_;
  std::string body_;
};

// An estimate of the width of `text` in the page's sans-serif font at 12 pixels.
[[nodiscard]] double text_width(std::string_view text);

}  // namespace oubli::report
