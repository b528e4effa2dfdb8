#pragma once

#include <string>
#include <vector>

#include "oubli/audit/figure.h"

namespace oubli::report {

// Leak against cost, a point with its interval per method, and the floor as a line with its band.
// Costs are on a square-root scale: the cheap ones are the interesting ones. Points carry numbers,
// which the table beside explains.
struct FrontierChart {
  struct Point {
    std::string number;
    std::string name;
    double cost = 0;  // share of a retraining
    Figure leak;
    bool best = false;  // no other method leaks less for at most its cost
  };
  std::string title;
  std::string description;
  std::string leak_axis, cost_axis;
  std::vector<Point> points;
  Figure floor;
};
[[nodiscard]] std::string svg(const FrontierChart& chart);

// Marks the points that no other one beats in both.
void mark_best(std::vector<FrontierChart::Point>& points);

}  // namespace oubli::report
