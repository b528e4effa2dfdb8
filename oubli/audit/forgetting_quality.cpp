#include "oubli/audit/forgetting_quality.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oubli/base/error.h"
#include "oubli/base/largest.h"

namespace oubli {
namespace {

constexpr double kCap = 0.5 * (kQualityBins - 1);

// What an attack with these rates, both above 0, proves; 0 if nothing.
double epsilon_of(double false_positive, double false_negative) {
  double epsilon = 0;
  for (const auto& [above, below] :
       {std::pair(false_positive, false_negative), std::pair(false_negative, false_positive)})
    if (1 - kQualityDelta - above > 0)
      epsilon = std::max(epsilon, std::log((1 - kQualityDelta - above) / below));
  return std::min(epsilon, kCap);
}

// Whether none of `others` lies between two of `values`: an attack is always right.
bool lie_together(std::span<const double> values, std::span<const double> others) {
  const auto range = std::ranges::minmax(values);
  return std::ranges::none_of(
      others, [&](double other) { return range.min <= other && other <= range.max; });
}

// Of more than kQualityThresholds places where a threshold can stand: those around the lowest and
// highest points of either population, where few errors prove most, and others evenly between.
void thin_places(std::vector<std::size_t>& first, std::vector<std::size_t>& second) {
  constexpr std::size_t kEnd = kQualityThresholds / 16, kEven = 3 * kQualityThresholds / 4;
  const std::size_t count = first.size();
  if (count <= kQualityThresholds) return;
  std::vector<bool> stays(count);
  for (std::size_t i = 0; i < kEven; ++i) stays[i * (count - 1) / (kEven - 1)] = true;
  for (const std::vector<std::size_t>* const below : {&first, &second})
    for (std::size_t i = 1; i < count; ++i)
      if ((*below)[i] != (*below)[i - 1] &&
          ((*below)[i] <= kEnd || (*below)[i - 1] + kEnd >= below->back()))
        stays[i - 1] = stays[i] = true;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!stays[i]) continue;
    first[kept] = first[i];
    second[kept++] = second[i];
  }
  first.resize(kept);
  second.resize(kept);
}

}  // namespace

double image_epsilon(std::span<const double> first, std::span<const double> second) {
  OUBLI_ASSERT(!first.empty() && !second.empty());
  struct Point {
    double value;
    bool first;
  };
  std::vector<Point> points;
  for (const double value : first) points.push_back({value, true});
  for (const double value : second) points.push_back({value, false});
  if (lie_together(first, second) || lie_together(second, first)) return kCap;
  std::ranges::sort(points, {}, &Point::value);
  // Points of either population below each place where a threshold can stand: between different
  // values.
  std::vector<std::size_t> first_below{0}, second_below{0};
  std::size_t of_first = 0, of_second = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    (points[i].first ? of_first : of_second) += 1;
    if (i + 1 < points.size() && points[i].value == points[i + 1].value) continue;
    first_below.push_back(of_first);
    second_below.push_back(of_second);
  }
  // An attack says "first" between two places, or outside of them. A rate of 0 proves nothing, and
  // more errors prove less: for each number of false positives the fewest misses above 0 matter.
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> fewest(second.size() + 1, kNone);
  thin_places(first_below, second_below);
  const auto note = [&](std::size_t taken, std::size_t missed) {
    if (missed > 0) fewest[taken] = std::min(fewest[taken], missed);
  };
  for (std::size_t low = 0; low < first_below.size(); ++low) {
    for (std::size_t high = low; high < first_below.size(); ++high) {
      const std::size_t first_inside = first_below[high] - first_below[low];
      const std::size_t second_inside = second_below[high] - second_below[low];
      note(second_inside, first.size() - first_inside);
      note(second.size() - second_inside, first_inside);
    }
  }
  double epsilon = 0;
  for (std::size_t taken = 1; taken < fewest.size(); ++taken)
    if (fewest[taken] != kNone)
      epsilon = std::max(
          epsilon,
          epsilon_of(static_cast<double>(taken) / static_cast<double>(second.size()),
                     static_cast<double>(fewest[taken]) / static_cast<double>(first.size())));
  return epsilon;
}

double image_quality(double epsilon) {
  return std::pow(2, -std::min(std::floor(epsilon / 0.5), kQualityBins - 1.0));
}

double log_odds(std::span<const float> logits, std::size_t column) {
  // ln(p / (1 - p)) = logit - log(sum of exp of the others)
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < logits.size(); ++c)
    if (c != column) largest = std::max(largest, static_cast<double>(logits[c]));
  if (logits.size() < 2) return 0;
  double sum = 0;
  for (std::size_t c = 0; c < logits.size(); ++c)
    if (c != column) sum += std::exp(static_cast<double>(logits[c]) - largest);
  return static_cast<double>(logits[column]) - largest - std::log(sum);
}

OddsOfImage log_odds(MatrixView<const float> first, MatrixView<const float> second) {
  std::vector<std::size_t> answers(second.cols());
  for (std::size_t n = 0; n < second.rows(); ++n) ++answers[place_of_largest(second.row(n))];
  const std::size_t common = place_of_largest(answers);
  OddsOfImage odds;
  for (std::size_t n = 0; n < first.rows(); ++n)
    odds.first.push_back(log_odds(first.row(n), common));
  for (std::size_t n = 0; n < second.rows(); ++n)
    odds.second.push_back(log_odds(second.row(n), common));
  return odds;
}

}  // namespace oubli
