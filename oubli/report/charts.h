#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "oubli/audit/figure.h"
#include "oubli/base/text_table.h"

// Charts as SVG text for the report's page. They carry classes, not colours: the page's style sheet
// (style.h) colours them, for light, dark and print. Series differ by marker as well as by colour.
// Charts are drawn narrow enough for a phone; a wider page sets several side by side.
namespace oubli::report {

// The mean, and one standard deviation either way instead of an interval.
[[nodiscard]] Figure figure_of(const MeanStd& spread);

// "0.327 (0.310 to 0.344)", "0.327 (no interval)" or "not computed: the reason".
[[nodiscard]] std::string to_text(const Figure& figure, int digits = 3);

// Why figures or their intervals are missing: each reason once, with what it is the reason of.
class Reasons {
 public:
  // Does nothing if nothing is missing.
  void add(const std::string& what, const Figure& figure);
  // "No interval (AdaBoost; logistic regression): one model."
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  struct Entry {
    bool has_value;
    std::string reason;
    std::vector<std::string> of;
    std::set<std::string> known = {};  // the same: there may be tens of thousands
  };
  std::vector<Entry> entries_;
  std::map<std::pair<bool, std::string>, std::size_t> index_;  // of them
};

// How a series looks. Known methods always look the same, whichever others are drawn beside them.
struct Series {
  std::string name;
  int style = 0;  // 0..5: colour and marker of the style sheet
};
[[nodiscard]] Series series_of(const std::string& method);

// Rows of points with intervals over a common scale, a grey band in a row being its floor.
struct DotChart {
  struct Mark {
    std::size_t series = 0;
    Figure figure;
  };
  struct Row {
    std::string label;
    std::vector<Mark> marks;
    Figure floor;
  };
  std::string title;        // shown, and the picture's accessible name
  std::string description;  // the text alternative
  std::string axis;
  std::string floor_name;  // in the legend; empty: no floor
  double low = 0;
  double high = 1;
  std::vector<Series> series;
  std::vector<Row> rows;
};
[[nodiscard]] std::string svg(const DotChart& chart);
[[nodiscard]] TextTable table(const DotChart& chart);
[[nodiscard]] std::vector<std::string> reasons(const DotChart& chart);

// Two bars per row with error bars: a method beside the reference it should look like.
struct BarChart {
  struct Row {
    std::string label;
    std::optional<MeanStd> value;
    std::optional<MeanStd> reference;
  };
  std::string title;
  std::string description;
  std::string axis;
  std::string reference_name;
  Series series;
  double high = 1;
  std::vector<Row> rows;
};
[[nodiscard]] std::string svg(const BarChart& chart);

// The picture at the top: per observer, how often the best attack is right in 100 guesses, from 50
// (guessing) to 100 (certain), with the floor's band and the verdict's word.
struct VerdictChart {
  struct Row {
    std::string observer;  // "sees logits"
    std::string word;      // "can tell"
    int level = 0;         // 0 not told apart, 1 faint, 2 can tell
    Figure before;         // naive, for comparison; may be absent
    Figure now;
    Figure floor;
  };
  std::string title;
  std::string description;
  std::string before_name;
  std::string now_name;
  std::string floor_name;
  std::vector<Row> rows;
};
[[nodiscard]] std::string svg(const VerdictChart& chart, bool wide);
[[nodiscard]] TextTable table(const VerdictChart& chart);
[[nodiscard]] std::vector<std::string> reasons(const VerdictChart& chart);

}  // namespace oubli::report
