#include "oubli/report/charts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "oubli/base/error.h"
#include "oubli/report/svg.h"

namespace oubli::report {
namespace {

using enum Canvas::Anchor;

constexpr double kWidth = 360;  // of a narrow chart: fits a phone
constexpr double kMargin = 10;
constexpr double kValueRoom = 42;  // for the figures at the right

// Maps a value to a pixel, clamped to the chart.
struct Scale {
  double low, high, left, right;
  [[nodiscard]] double operator()(double value) const {
    const double t = (value - low) / (high - low);
    return left + std::clamp(t, 0.0, 1.0) * (right - left);
  }
};

// A step of 1, 2 or 5 times a power of ten that gives at most `most` steps.
double tick_step(double range, int most) {
  const double rough = range / most;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

// Grid lines from `top` to `bottom` with their numbers, and the axis title, below.
void draw_axis(Canvas& canvas, const Scale& scale, double top, double bottom,
               const std::string& title) {
  const double step = tick_step(scale.high - scale.low, 5);
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  for (double t = std::ceil(scale.low / step - 1e-9) * step; t <= scale.high + 1e-9 * step;
       t += step) {
    const double value = std::abs(t) < 1e-9 * step ? 0 : t;
    canvas.line(scale(value), top, scale(value), bottom, value == 0 ? "zero" : "grid");
    canvas.text(scale(value), bottom + 14, fmt::format("{:.{}f}", value, digits), "tick", middle);
  }
  canvas.text((scale.left + scale.right) / 2, bottom + 31, title, "axis", middle);
}

void draw_floor(Canvas& canvas, const Scale& scale, const Figure& floor, double top,
                double height) {
  if (!floor.value) return;
  const double low = scale(floor.low.value_or(*floor.value));
  const double high = scale(floor.high.value_or(*floor.value));
  canvas.rect(low, top, std::max(high - low, 3.0), height, "floor");
  canvas.line(scale(*floor.value), top, scale(*floor.value), top + height, "floormid");
}

void draw_whisker(Canvas& canvas, const Scale& scale, const Figure& figure, double y,
                  const std::string& css) {
  if (!figure.low || !figure.high) return;
  canvas.line(scale(*figure.low), y, scale(*figure.high), y, css);
}

struct LegendEntry {
  std::string name;
  int style;  // -1: the floor's band; -2: a reference bar
};

// Entries side by side, wrapped; returns the y below the last line.
double draw_legend(Canvas& canvas, const std::vector<LegendEntry>& entries, double y) {
  double x = kMargin;
  for (const auto& [name, style] : entries) {
    const double width = 16 + text_width(name) + 12;
    if (x > kMargin && x + width > canvas.width()) {
      x = kMargin;
      y += 18;
    }
    if (style == -1) {
      canvas.rect(x, y - 10, 12, 12, "floor");
      canvas.line(x + 6, y - 10, x + 6, y + 2, "floormid");
    } else if (style == -2) {
      canvas.rect(x, y - 8, 12, 8, "reference");
    } else {
      canvas.marker(x + 6, y - 4, style);
    }
    canvas.text(x + 17, y, name, "legend");
    x += width;
  }
  return y + 10;
}

// What a reason calls a row's floor: all rows' if none has one.
std::string floor_title(const std::string& floor_name, const std::string& row) {
  return floor_name.empty() ? "floor" : row + ", floor";
}

std::string short_number(double value) { return fmt::format("{:.3f}", value); }

}  // namespace

Figure figure_of(const MeanStd& spread) {
  return {spread.mean, spread.mean - spread.std, spread.mean + spread.std, ""};
}

std::string to_text(const Figure& figure, int digits) {
  if (!figure.value)
    return figure.reason.empty() ? "not computed" : "not computed: " + figure.reason;
  if (!figure.low || !figure.high)
    return fmt::format("{:.{}f}{}", *figure.value, digits,
                       figure.reason.empty() ? "" : " (no interval)");
  return fmt::format("{:.{}f} ({:.{}f} to {:.{}f})", *figure.value, digits, *figure.low, digits,
                     *figure.high, digits);
}

void Reasons::add(const std::string& what, const Figure& figure) {
  const bool has_value = figure.value.has_value();
  if (has_value && (figure.low || figure.reason.empty())) return;
  std::string reason = figure.reason.empty() ? "the file gives no reason" : figure.reason;
  if (reason.ends_with('.')) reason.pop_back();
  const auto [at, is_new] = index_.try_emplace({has_value, reason}, entries_.size());
  if (is_new) entries_.push_back({has_value, std::move(reason), {}});
  Entry& entry = entries_[at->second];
  if (entry.known.insert(what).second) entry.of.push_back(what);
}

std::vector<std::string> Reasons::lines() const {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> out;
  for (const Entry& entry : entries_) {
    const std::size_t shown = entry.of.size() > kMost ? kMost - 1 : entry.of.size();
    std::string of;
    for (std::size_t i = 0; i < shown; ++i) of += (i > 0 ? "; " : "") + entry.of[i];
    if (shown < entry.of.size()) of += fmt::format("; {} more", entry.of.size() - shown);
    out.push_back(fmt::format("{} ({}): {}.", entry.has_value ? "No interval" : "Not computed", of,
                              entry.reason));
  }
  return out;
}

Series series_of(const std::string& method) {
  static constexpr std::array<std::pair<const char*, int>, 6> kKnown{{{"normalization", 0},
                                                                      {"naive", 1},
                                                                      {"randomization", 2},
                                                                      {"zeroing", 3},
                                                                      {"refit", 4},
                                                                      {"centre", 5}}};
  for (const auto& [name, style] : kKnown)
    if (method == name) return {method, style};
  return {method, 5};
}

std::string svg(const DotChart& chart) {
  Canvas canvas(kWidth);
  const Scale scale{chart.low, chart.high, kMargin + 4, kWidth - kValueRoom - 8};
  // Titles are set at 14 pixels in bold.
  canvas.text_within(kMargin, 18, (kWidth - 2 * kMargin) * 12 / 15, chart.title, "title");
  std::vector<LegendEntry> legend;
  for (const Series& series : chart.series) legend.push_back({series.name, series.style});
  if (!chart.floor_name.empty()) legend.push_back({chart.floor_name, -1});
  const double top = draw_legend(canvas, legend, 40);

  constexpr double kLabel = 20;
  constexpr double kMark = 17;
  double bottom = top + 4;
  for (const auto& row : chart.rows)
    bottom += kLabel + kMark * static_cast<double>(std::max<std::size_t>(row.marks.size(), 1)) + 6;
  draw_axis(canvas, scale, top, bottom, chart.axis);
  double y = top + 4;
  for (const auto& row : chart.rows) {
    canvas.text_within(kMargin, y + 13, kWidth - 2 * kMargin, row.label, "label");
    y += kLabel;
    const double height = kMark * static_cast<double>(std::max<std::size_t>(row.marks.size(), 1));
    draw_floor(canvas, scale, row.floor, y, height);
    for (const auto& mark : row.marks) {
      const double middle_y = y + kMark / 2;
      const int style = chart.series[mark.series].style;
      if (mark.figure.value) {
        draw_whisker(canvas, scale, mark.figure, middle_y, fmt::format("whisker s{}", style));
        canvas.marker(scale(*mark.figure.value), middle_y, style);
        canvas.text(kWidth - kMargin, middle_y + 4, short_number(*mark.figure.value), "value", end);
      } else {
        canvas.text(kWidth - kMargin, middle_y + 4, "not computed", "value", end);
      }
      y += kMark;
    }
    if (row.marks.empty()) y += kMark;
    y += 6;
  }
  return canvas.finish(bottom + 40, chart.title, chart.description);
}

TextTable table(const DotChart& chart) {
  using enum TextTable::Align;
  TextTable out;
  out.columns.push_back({""});
  for (const Series& series : chart.series) out.columns.push_back({series.name, right});
  if (!chart.floor_name.empty()) out.columns.push_back({chart.floor_name, right});
  for (const auto& row : chart.rows) {
    std::vector<std::string> cells(out.columns.size());
    cells[0] = row.label;
    for (const auto& mark : row.marks) cells[1 + mark.series] = to_text(mark.figure);
    if (!chart.floor_name.empty()) cells.back() = to_text(row.floor);
    out.rows.push_back(std::move(cells));
  }
  return out;
}

std::vector<std::string> reasons(const DotChart& chart) {
  Reasons why;
  for (const auto& row : chart.rows)
    for (const auto& mark : row.marks)
      why.add(row.label + ", " + chart.series[mark.series].name, mark.figure);
  for (const auto& row : chart.rows)
    if (!row.floor.reason.empty()) why.add(floor_title(chart.floor_name, row.label), row.floor);
  return why.lines();
}

std::string svg(const BarChart& chart) {
  Canvas canvas(kWidth);
  constexpr double kBar = 9;
  constexpr double kRow = 2 * kBar + 9;
  double widest = 0;
  for (const auto& row : chart.rows) widest = std::max(widest, text_width(row.label));
  const double room = std::clamp(widest, 24.0, 110.0);
  const Scale scale{0, chart.high, kMargin + room + 6, kWidth - kMargin - 8};
  // Titles are set at 14 pixels in bold.
  canvas.text_within(kMargin, 18, (kWidth - 2 * kMargin) * 12 / 15, chart.title, "title");
  const double top = draw_legend(
      canvas, {{chart.series.name, chart.series.style}, {chart.reference_name, -2}}, 40);
  const double bottom = top + 6 + kRow * static_cast<double>(chart.rows.size());
  draw_axis(canvas, scale, top, bottom, chart.axis);
  double y = top + 6;
  for (const auto& row : chart.rows) {
    canvas.text_within(kMargin, y + kBar + 4, room, row.label, "label");
    const auto bar = [&](const std::optional<MeanStd>& share, double at, const std::string& css) {
      if (!share) return;
      canvas.rect(scale(0), at, scale(share->mean) - scale(0), kBar, css);
      draw_whisker(canvas, scale, figure_of(*share), at + kBar / 2, "error");
    };
    bar(row.value, y, fmt::format("bar s{}", chart.series.style));
    bar(row.reference, y + kBar + 1, "reference");
    y += kRow;
  }
  return canvas.finish(bottom + 40, chart.title, chart.description);
}

std::string svg(const VerdictChart& chart, bool wide) {
  Canvas canvas(wide ? 860 : kWidth);
  const double label_room = wide ? 160 : 0;
  const double word_room = wide ? 235 : 0;
  const Scale scale{50, 100, kMargin + label_room + 8, canvas.width() - kMargin - word_room - 12};
  std::vector<LegendEntry> legend{{chart.now_name, 0}};
  const bool any_before =
      std::ranges::any_of(chart.rows, [](const auto& r) { return r.before.value.has_value(); });
  if (any_before) legend.push_back({chart.before_name, 1});
  if (!chart.floor_name.empty()) legend.push_back({chart.floor_name, -1});
  const double top = draw_legend(canvas, legend, 20) + 4;
  const double row_height = wide ? 52 : 68;
  const double bottom = top + row_height * static_cast<double>(chart.rows.size());
  draw_axis(canvas, scale, top, bottom, "right answers in 100 guesses (50 = coin toss)");
  double y = top;
  for (const auto& row : chart.rows) {
    const double track = y + row_height - 24;
    canvas.line(scale(50), track, scale(100), track, "track");
    draw_floor(canvas, scale, row.floor, track - 12, 24);
    if (wide) {
      canvas.text(kMargin, track + 5, row.observer, "big");
    } else {
      canvas.text(kMargin, y + 20, row.observer, "big");
    }
    const auto word_x = wide ? canvas.width() - word_room + 6 : canvas.width() - kMargin;
    canvas.text(word_x, wide ? track + 5 : y + 20, row.word, fmt::format("big level{}", row.level),
                wide ? start : end);
    if (row.before.value) {
      draw_whisker(canvas, scale, row.before, track - 6, "whisker s1");
      canvas.marker(scale(*row.before.value), track - 6, 1);
    }
    if (row.now.value) {
      const double at = row.before.value ? track + 6 : track;
      draw_whisker(canvas, scale, row.now, at, "whisker s0");
      canvas.marker(scale(*row.now.value), at, 0);
    }
    y += row_height;
  }
  return canvas.finish(bottom + 40, chart.title, chart.description,
                       wide ? "chart wide" : "chart narrow");
}

TextTable table(const VerdictChart& chart) {
  using enum TextTable::Align;
  TextTable out;
  out.columns = {{"observer"}, {chart.now_name, right}};
  const bool any_before =
      std::ranges::any_of(chart.rows, [](const auto& r) { return r.before.value.has_value(); });
  if (any_before) out.columns.push_back({chart.before_name, right});
  if (!chart.floor_name.empty()) out.columns.push_back({chart.floor_name, right});
  out.columns.push_back({"verdict"});
  for (const auto& row : chart.rows) {
    std::vector<std::string> cells{row.observer, to_text(row.now, 1)};
    if (any_before) cells.push_back(to_text(row.before, 1));
    if (!chart.floor_name.empty()) cells.push_back(to_text(row.floor, 1));
    cells.push_back(row.word);
    out.rows.push_back(std::move(cells));
  }
  return out;
}

std::vector<std::string> reasons(const VerdictChart& chart) {
  Reasons why;
  for (const auto& row : chart.rows) why.add(row.observer, row.now);
  for (const auto& row : chart.rows) {
    if (!row.before.reason.empty()) why.add(row.observer + ", " + chart.before_name, row.before);
    if (!row.floor.reason.empty()) why.add(floor_title(chart.floor_name, row.observer), row.floor);
  }
  return why.lines();
}

}  // namespace oubli::report
