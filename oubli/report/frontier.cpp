#include "oubli/report/frontier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "oubli/report/svg.h"

namespace oubli::report {
namespace {

constexpr double kFrontierWidth = 700, kFrontierHeight = 420;
constexpr double kLeft = 52, kRight = 684, kTop = 34, kBottom = 366;

double x_of(double cost) {
  return kLeft + 14 + std::sqrt(std::clamp(cost, 0.0, 1.0)) * (kRight - kLeft - 28);
}

// From a little below 0, where figures of nothing are.
double y_of(double leak) {
  constexpr double kLowest = -0.1;
  return kBottom - (std::clamp(leak, kLowest, 1.0) - kLowest) / (1 - kLowest) * (kBottom - kTop);
}

void draw_axes(Canvas& canvas, const FrontierChart& chart) {
  using enum Canvas::Anchor;
  for (const double leak : {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}) {
    canvas.line(kLeft, y_of(leak), kRight, y_of(leak), leak == 0 ? "zero" : "grid");
    canvas.text(kLeft - 6, y_of(leak) + 4, fmt::format("{:.1f}", leak), "tick", end);
  }
  for (const double cost : {0.0, 0.01, 0.05, 0.1, 0.2, 0.33, 0.5, 1.0}) {
    canvas.line(x_of(cost), kTop, x_of(cost), kBottom, "grid");
    canvas.text(x_of(cost), kBottom + 15, fmt::format("{:.0f} %", 100 * cost), "tick", middle);
  }
  canvas.text((kLeft + kRight) / 2, kBottom + 36, chart.cost_axis, "axis", middle);
  canvas.text(kLeft, kTop - 16, chart.leak_axis, "axis", start);
}

void draw_floor(Canvas& canvas, const Figure& floor) {
  if (!floor.value) return;
  const double low = y_of(floor.low.value_or(*floor.value));
  const double high = y_of(floor.high.value_or(*floor.value));
  canvas.rect(kLeft, high, kRight - kLeft, std::max(low - high, 3.0), "floor");
  canvas.line(kLeft, y_of(*floor.value), kRight, y_of(*floor.value), "floormid");
}

}  // namespace

std::string svg(const FrontierChart& chart) {
  Canvas canvas(kFrontierWidth);
  draw_floor(canvas, chart.floor);
  draw_axes(canvas, chart);
  // Points of equal cost stand side by side.
  std::vector<double> taken;
  for (const FrontierChart::Point& point : chart.points) {
    if (!point.leak.value) continue;
    double x = x_of(point.cost);
    while (std::ranges::any_of(taken, [&](double other) { return std::abs(other - x) < 12; }))
      x += 12.5;
    taken.push_back(x);
    const int style = point.best ? 0 : 5;
    if (point.leak.low && point.leak.high)
      canvas.line(x, y_of(*point.leak.low), x, y_of(*point.leak.high),
                  fmt::format("whisker s{}", style));
    canvas.marker(x, y_of(*point.leak.value), style);
    const double above = y_of(point.leak.high.value_or(*point.leak.value)) - 5;
    canvas.text(x, above, point.number, "tick", Canvas::Anchor::middle);
  }
  return canvas.finish(kFrontierHeight, chart.title, chart.description, "chart frontier");
}

void mark_best(std::vector<FrontierChart::Point>& points) {
  for (FrontierChart::Point& point : points) {
    point.best = point.leak.value.has_value() &&
                 std::ranges::none_of(points, [&](const FrontierChart::Point& other) {
                   return other.leak.value && other.cost <= point.cost &&
                          *other.leak.value < *point.leak.value;
                 });
  }
}

}  // namespace oubli::report
