#include "oubli/report/frontier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace oubli::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Frontier, BestAreThoseNobodyBeatsInBoth) {
  std::vector<FrontierChart::Point> points{{"1", "free", 0, Figure::of(0.8)},
                                           {"2", "cheap", 0.1, Figure::of(0.5)},
                                           {"3", "worse", 0.2, Figure::of(0.6)},
                                           {"4", "dear", 1, Figure::of(0.0)},
                                           {"5", "unknown", 0, Figure::missing("none")}};
  mark_best(points);
  std::vector<std::string> best;
  for (const FrontierChart::Point& point : points)
    if (point.best) best.push_back(point.name);
  EXPECT_THAT(best, ::testing::ElementsAre("free", "cheap", "dear"));
}

TEST(Frontier, DrawsEveryMeasuredPointAndEscapesNames) {
  FrontierChart chart;
  chart.title = "Leak <against> cost";
  chart.floor = {0.01, -0.02, 0.04, ""};
  chart.points = {{"17", "a", 0, {0.8, 0.7, 0.9, ""}}, {"18", "b", 0.5, Figure::missing("x")}};
  const std::string picture = svg(chart);
  EXPECT_THAT(picture, HasSubstr("Leak &lt;against&gt; cost"));
  EXPECT_THAT(picture, HasSubstr(">17<"));
  EXPECT_THAT(picture, Not(HasSubstr(">18<")));
  EXPECT_THAT(picture, HasSubstr("class=\"floor\""));
}

}  // namespace
}  // namespace oubli::report
