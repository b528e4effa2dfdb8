#include "oubli/report/charts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oubli/report/svg.h"

namespace oubli::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// All values of attribute `name` in elements of that kind (that have `part` in them), in order.
std::vector<double> attribute(const std::string& svg_text, const std::string& element,
                              const std::string& name, const std::string& part = "") {
  std::vector<double> out;
  const std::string tag = "<" + element, value = " " + name + "=\"";
  for (std::size_t begin = svg_text.find(tag); begin != std::string::npos;
       begin = svg_text.find(tag, begin + 1)) {
    const std::string found = svg_text.substr(begin, svg_text.find('>', begin) - begin);
    if (found.find(part) == std::string::npos) continue;
    if (const std::size_t at = found.find(value); at != std::string::npos)
      out.push_back(std::stod(found.substr(at + value.size())));
  }
  return out;
}

DotChart example() {
  DotChart chart;
  chart.title = "Leak <b>";
  chart.description = "a & b";
  chart.axis = "advantage";
  chart.floor_name = "floor";
  chart.series = {series_of("normalization")};
  for (const double value : {0.0, 0.25, 0.5, 1.0, 2.0})
    chart.rows.push_back(
        {"row", {{0, {value, value - 0.1, value + 0.1, ""}}}, {0.1, 0.05, 0.15, ""}});
  return chart;
}

TEST(DotChart, PointsLieOnALinearScaleAndStayInside) {
  const std::string text = svg(example());
  auto x = attribute(text, "circle", "cx");
  x.erase(x.begin());  // the legend's
  ASSERT_EQ(x.size(), 5U);
  EXPECT_NEAR(x[1] - x[0], (x[3] - x[0]) / 4, 0.1);
  EXPECT_NEAR(x[2] - x[0], (x[3] - x[0]) / 2, 0.1);
  EXPECT_DOUBLE_EQ(x[4], x[3]);  // beyond the scale: at its end
  for (const double left : attribute(text, "line", "x1")) EXPECT_GE(left, x[0]);
  for (const double right : attribute(text, "line", "x2")) EXPECT_LE(right, x[3]);
}

TEST(DotChart, HasANameAndATextAlternativeAndIsEscaped) {
  const std::string text = svg(example());
  EXPECT_THAT(text, HasSubstr("role=\"img\""));
  EXPECT_THAT(text, HasSubstr("aria-label=\"Leak &lt;b&gt;. a &amp; b\""));
  EXPECT_THAT(text, HasSubstr("<desc>a &amp; b</desc>"));
  EXPECT_THAT(text, Not(HasSubstr("<b>")));
}

TEST(DotChart, AFigureThatWasNotComputedKeepsItsPlaceAndItsReason) {
  DotChart chart = example();
  chart.rows[1].marks[0].figure = {std::nullopt, std::nullopt, std::nullopt, "too few models"};
  EXPECT_EQ(attribute(svg(chart), "circle", "cx").size(), 5U);
  EXPECT_THAT(svg(chart), HasSubstr(">not computed</text>"));
  EXPECT_EQ(table(chart).rows[1][1], "not computed: too few models");
  EXPECT_EQ(table(chart).rows[0][1], "0.000 (-0.100 to 0.100)");
}

TEST(DotChart, EachReasonIsGivenOnceWithWhatItIsTheReasonOf) {
  DotChart chart = example();
  EXPECT_THAT(reasons(chart), ::testing::IsEmpty());
  for (std::size_t i = 0; i < 2; ++i) {
    chart.rows[i].label = i == 0 ? "a" : "b";
    chart.rows[i].marks[0].figure = {std::nullopt, std::nullopt, std::nullopt, "too few"};
    chart.rows[i].floor = {std::nullopt, std::nullopt, std::nullopt, "no second batch"};
  }
  chart.rows[2].label = "c";
  chart.rows[2].marks[0].figure = {0.5, std::nullopt, std::nullopt, "one model"};
  chart.rows[3].label = "d";
  chart.rows[3].marks[0].figure = {};
  EXPECT_THAT(reasons(chart),
              ::testing::ElementsAre("Not computed (a, normalization; b, normalization): too few.",
                                     "No interval (c, normalization): one model.",
                                     "Not computed (d, normalization): the file gives no reason.",
                                     "Not computed (a, floor; b, floor): no second batch."));
  for (auto& row : chart.rows) row.floor = {{}, {}, {}, "no second batch"};
  chart.floor_name.clear();  // no row has one
  EXPECT_EQ(reasons(chart).back(), "Not computed (floor): no second batch.");
}

TEST(ToText, SaysWhatIsMissing) {
  EXPECT_EQ(to_text({0.5, 0.4, 0.6, ""}, 1), "0.5 (0.4 to 0.6)");
  EXPECT_EQ(to_text({0.5, {}, {}, ""}, 1), "0.5");  // none was to be expected
  EXPECT_EQ(to_text({0.5, {}, {}, "one model"}, 1), "0.5 (no interval)");
  EXPECT_EQ(to_text({{}, {}, {}, "no model"}, 1), "not computed: no model");
  EXPECT_EQ(to_text({}, 1), "not computed");
}

TEST(Reasons, LongListsAreCut) {
  Reasons why;
  for (int i = 0; i < 9; ++i) why.add("row " + std::to_string(i), {{}, {}, {}, "Too few."});
  why.add("row 0", {{}, {}, {}, "Too few."});  // the same again
  EXPECT_THAT(why.lines(),
              ::testing::ElementsAre("Not computed (row 0; row 1; row 2; 6 more): Too few."));
}

TEST(BarChart, BarsAreProportionalToTheirValues) {
  BarChart chart;
  chart.series = series_of("naive");
  chart.high = 0.5;
  chart.reference_name = "retrained";
  chart.rows = {{"a", MeanStd{0.1, 0.05}, MeanStd{0.2, 0.1}}, {"b", MeanStd{0.4, 0.1}, {}}};
  const std::string text = svg(chart);
  const auto widths = attribute(text, "rect", "width", "class=\"bar s1\"");
  ASSERT_EQ(widths.size(), 2U);
  EXPECT_NEAR(widths[1], 4 * widths[0], 0.3);  // coordinates are rounded to a tenth
  const auto reference = attribute(text, "rect", "width", "class=\"reference\"");
  ASSERT_EQ(reference.size(), 2U);  // the legend's and one bar
  EXPECT_NEAR(reference[1], 2 * widths[0], 0.2);
}

TEST(VerdictChart, FiftyIsAtTheLeftAndAHundredAtTheRight) {
  VerdictChart chart;
  chart.now_name = "normalization";
  chart.rows = {{"sees logits", "can tell", 2, {}, {50.0, {}, {}, ""}, {}},
                {"sees labels", "not told apart", 0, {}, {75.0, {}, {}, ""}, {}},
                {"sees all", "can tell", 2, {}, {100.0, {}, {}, ""}, {}}};
  for (const bool wide : {false, true}) {
    auto x = attribute(svg(chart, wide), "circle", "cx");
    x.erase(x.begin());
    ASSERT_EQ(x.size(), 3U);
    EXPECT_NEAR(x[1], (x[0] + x[2]) / 2, 0.1);
    const auto track = attribute(svg(chart, wide), "line", "x2", "class=\"track\"");
    EXPECT_DOUBLE_EQ(x[2], track.at(0));
  }
  EXPECT_EQ(table(chart).rows[1],
            (std::vector<std::string>{"sees labels", "75.0", "not told apart"}));
}

TEST(Canvas, LongNamesAreCutAndKeptAsATooltip) {
  Canvas canvas(100);
  canvas.text_within(0, 0, 60, "ünïcödé name that is long <", "label");
  const std::string text = canvas.finish(10, "t", "d");
  EXPECT_THAT(text, HasSubstr("…<title>ünïcödé name that is long &lt;</title>"));
  EXPECT_THAT(text, HasSubstr(">ünïcödé…<"));  // eight columns, the last the ellipsis
}

// What differs in its last word alone, as answers of an attack do, stays different.
TEST(Canvas, NamesALittleTooLongAreSqueezed) {
  Canvas canvas(100);
  canvas.text_within(0, 0, 100, "seventeen letters", "label");  // 112 pixels
  const std::string text = canvas.finish(10, "t", "d");
  EXPECT_THAT(text, HasSubstr(R"(textLength="100.0")"));
  EXPECT_THAT(text, HasSubstr(">seventeen letters<"));
}

TEST(SeriesOf, KnownMethodsDifferInStyle) {
  std::vector<int> styles;
  for (const char* method :
       {"normalization", "naive", "randomization", "zeroing", "refit", "centre"})
    styles.push_back(series_of(method).style);
  EXPECT_THAT(styles, ::testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5));
}

}  // namespace
}  // namespace oubli::report
