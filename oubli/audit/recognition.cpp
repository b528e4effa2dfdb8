#include "oubli/audit/recognition.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "oubli/base/random.h"

namespace oubli {
namespace {

double fold(double area) { return std::max(area, 1 - area); }

// The direction of Fisher's linear discriminant between rows flagged 1 and 0, with the pooled
// covariance pulled a little towards a multiple of the identity.
Eigen::VectorXd discriminant(MatrixView<const float> logits, std::span<const std::size_t> rows,
                             std::span<const std::uint8_t> positive) {
  constexpr double kRidge = 1e-3;
  const auto d = static_cast<Eigen::Index>(logits.cols());
  const auto row_of = [&](std::size_t n) {
    return Eigen::Map<const Eigen::VectorXf>(logits.row(rows[n]).data(), d).cast<double>();
  };
  Eigen::MatrixXd means = Eigen::MatrixXd::Zero(d, 2);
  Eigen::Vector2d counts = Eigen::Vector2d::Zero();
  for (std::size_t n = 0; n < rows.size(); ++n) {
    means.col(positive[n]) += row_of(n);
    counts[positive[n]] += 1;
  }
  means.col(0) /= counts[0];
  means.col(1) /= counts[1];
  const Eigen::VectorXd apart = means.col(1) - means.col(0);
  // Fewer rows than columns: the inverse by way of the rows' inner products, which takes a matrix
  // of rows x rows, (Z'Z + rI)^-1 = (I - Z'(ZZ' + rI)^-1 Z) / r.
  if (rows.size() < logits.cols()) {
    Eigen::MatrixXd from_mean(d, static_cast<Eigen::Index>(rows.size()));
    for (std::size_t n = 0; n < rows.size(); ++n)
      from_mean.col(static_cast<Eigen::Index>(n)) = row_of(n) - means.col(positive[n]);
    Eigen::MatrixXd inner = from_mean.transpose() * from_mean;
    const double ridge = kRidge * inner.trace() / static_cast<double>(d);
    if (!(ridge > 0)) return apart;
    inner.diagonal().array() += ridge;
    return (apart - from_mean * inner.llt().solve(from_mean.transpose() * apart)) / ridge;
  }
  Eigen::MatrixXd scatter = Eigen::MatrixXd::Zero(d, d);
  for (std::size_t n = 0; n < rows.size(); ++n)
    scatter.selfadjointView<Eigen::Lower>().rankUpdate(row_of(n) - means.col(positive[n]));
  const double ridge = kRidge * scatter.trace() / static_cast<double>(d);
  if (!(ridge > 0)) return apart;  // constant within classes
  scatter.diagonal().array() += ridge;
  return scatter.selfadjointView<Eigen::Lower>().llt().solve(apart);
}

// Mean over the two halves of the AUC of a read-out fitted on the other half.
double cross_fitted_readout(MatrixView<const float> logits, std::span<const std::size_t> rows,
                            std::span<const std::uint8_t> positive, RandomStream random) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  random.shuffle(std::span(order));
  // Every second positive and every second negative, so that both halves hold both kinds.
  std::array<std::vector<std::size_t>, 2> half_rows;
  std::array<std::vector<std::uint8_t>, 2> half_positive;
  std::array<unsigned, 2> seen{};
  for (const std::size_t n : order) {
    const std::size_t half = seen[positive[n]]++ % 2;
    half_rows[half].push_back(rows[n]);
    half_positive[half].push_back(positive[n]);
  }
  double sum = 0;
  for (const std::size_t half : {0U, 1U}) {
    const Eigen::VectorXd direction =
        discriminant(logits, half_rows[1 - half], half_positive[1 - half]);
    std::vector<double> scores;
    for (const std::size_t row : half_rows[half]) {
      double score = 0;
      for (std::size_t i = 0; i < logits.cols(); ++i)
        score += direction[static_cast<Eigen::Index>(i)] * static_cast<double>(logits(row, i));
      scores.push_back(score);
    }
    sum += area_under_curve(scores, half_positive[half]);
  }
  return sum / 2;
}

// Which of `labels` are c, and which count at all.
struct Sides {
  std::vector<std::size_t> rows;
  std::vector<std::uint8_t> positive;  // of each of `rows`
  std::size_t own = 0;
};

Sides sides_of(std::span<const std::uint32_t> labels, std::size_t c,
               std::span<const std::size_t> forget) {
  Sides sides;
  std::vector<bool> gone(labels.empty() ? 0 : std::size_t{std::ranges::max(labels)} + 1);
  for (const std::size_t other : forget)
    if (other < gone.size()) gone[other] = true;
  for (std::size_t n = 0; n < labels.size(); ++n) {
    const bool own = labels[n] == c;
    if (!own && gone[labels[n]]) continue;
    sides.rows.push_back(n);
    sides.positive.push_back(own ? 1 : 0);
    if (own) ++sides.own;
  }
  return sides;
}

std::optional<double> readout_area(MatrixView<const float> logits, const Sides& sides,
                                   std::size_t c, std::uint64_t seed) {
  if (std::min(sides.own, sides.rows.size() - sides.own) < kReadoutSamples) return std::nullopt;
  return cross_fitted_readout(logits, sides.rows, sides.positive,
                              RandomStream(seed, task_id("leak halves", {c})));
}

}  // namespace

std::string_view how_often(double area) {
  return area < 0.6 ? "hardly" : area < 0.75 ? "sometimes" : area < 0.9 ? "often" : "nearly always";
}

Compared compare_areas(double area, double other) {
  if (area > other + kSameArea) return Compared::more;
  return area < other - kSameArea ? Compared::less : Compared::same;
}

double area_under_curve(std::span<const double> scores, std::span<const std::uint8_t> positive) {
  OUBLI_ASSERT(scores.size() == positive.size());
  // Logits that overflowed have no order.
  if (std::ranges::any_of(scores, [](double score) { return std::isnan(score); }))
    return std::numeric_limits<double>::quiet_NaN();
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return scores[i]; });
  double positives = 0, wins = 0, negatives = 0;
  for (std::size_t begin = 0; begin < order.size();) {
    double tied_positives = 0, tied_negatives = 0;
    std::size_t end = begin;
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end)
      (positive[order[end]] != 0 ? tied_positives : tied_negatives) += 1;
    wins += tied_positives * (negatives + tied_negatives / 2);
    positives += tied_positives;
    negatives += tied_negatives;
    begin = end;
  }
  return wins / (positives * negatives);
}

std::vector<Recognition> measure_recognition(MatrixView<const float> logits,
                                             std::span<const std::uint32_t> labels,
                                             std::span<const std::size_t> forget,
                                             std::uint64_t seed) {
  std::vector<Recognition> leaks;
  for (const std::size_t c : forget)
    if (const auto leak = recognition_of(logits, labels, forget, c, seed)) leaks.push_back(*leak);
  return leaks;
}

std::optional<Recognition> recognition_of(MatrixView<const float> logits,
                                          std::span<const std::uint32_t> labels,
                                          std::span<const std::size_t> forget, std::size_t c,
                                          std::uint64_t seed) {
  OUBLI_ASSERT(logits.rows() == labels.size());
  const Sides sides = sides_of(labels, c, forget);
  if (sides.own == 0 || sides.own == sides.rows.size()) return std::nullopt;
  std::vector<double> scores;
  for (const std::size_t n : sides.rows) {
    double sum = 0;
    for (const float value : logits.row(n)) sum += static_cast<double>(value);
    scores.push_back(-sum);
  }
  Recognition leak{c, sides.own, fold(area_under_curve(scores, sides.positive)), {}};
  if (const auto area = readout_area(logits, sides, c, seed)) leak.readout = fold(*area);
  return leak;
}

std::optional<double> probe_area(MatrixView<const float> features,
                                 std::span<const std::uint32_t> labels, std::size_t c,
                                 std::uint64_t seed) {
  OUBLI_ASSERT(features.rows() == labels.size());
  return readout_area(features, sides_of(labels, c, {}), c, seed);
}

}  // namespace oubli
