#include "oubli/audit/score_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "oubli/base/error.h"

namespace oubli {
namespace {

constexpr std::array kFalsePositives{0.01, 0.001};
constexpr std::size_t kTailResamples = 200;  // percentiles of a rate need no more

std::vector<double> sorted(std::span<const double> values) {
  std::vector<double> result(values.begin(), values.end());
  std::ranges::sort(result);
  return result;
}

// Share of `others` (sorted) below `score`, equal ones half.
double share_below(const std::vector<double>& others, double score) {
  const auto [low, high] = std::equal_range(others.begin(), others.end(), score);
  return (static_cast<double>(low - others.begin()) + static_cast<double>(high - others.begin())) /
         (2 * static_cast<double>(others.size()));
}

// Answers of one network in order; thresholds cut them in a few steps.
class Tails {
 public:
  // `sign`: 1 if large scores of `positives` are what is looked for, -1 for small ones.
  Tails(const Matrix<double>& positives, const Matrix<double>& negatives, double sign)
      : positives_(positives.rows()), answers_(positives.cols()) {
    for (std::size_t n = 0; n < positives.rows(); ++n) {
      for (const double score : positives.row(n)) positives_[n].push_back(sign * score);
      std::ranges::sort(positives_[n]);
    }
    for (std::size_t n = 0; n < negatives.rows(); ++n)
      for (const double score : negatives.row(n))
        negatives_.push_back({sign * score, static_cast<std::uint32_t>(n)});
    std::ranges::sort(negatives_, std::greater{}, &Negative::score);
  }

  // The share of positives above the lowest threshold that at most `allowed` negatives exceed,
  // each network counting as often as its weight says.
  template <typename PositiveWeight, typename NegativeWeight>
  [[nodiscard]] double rate(std::size_t allowed, PositiveWeight positive, NegativeWeight negative,
                            double networks) const {
    std::size_t above = 0, i = 0;
    while (i < negatives_.size()) {
      above += negative(negatives_[i].network);
      if (above > allowed) break;
      ++i;
    }
    OUBLI_ASSERT(i < negatives_.size());
    const double threshold = negatives_[i].score;
    double found = 0;
    for (std::size_t n = 0; n < positives_.size(); ++n) {
      const auto weight = static_cast<double>(positive(static_cast<std::uint32_t>(n)));
      if (weight == 0) continue;
      const auto& scores = positives_[n];
      found +=
          weight * static_cast<double>(scores.end() - std::ranges::upper_bound(scores, threshold));
    }
    return found / (networks * static_cast<double>(answers_));
  }
  [[nodiscard]] std::size_t negatives() const { return negatives_.size(); }

 private:
  struct Negative {
    double score;
    std::uint32_t network;
  };
  std::vector<std::vector<double>> positives_;
  std::vector<Negative> negatives_;
  std::size_t answers_;
};

void add_tails(ScoreSummary& summary, const ScorePair& scores, const ModelBootstrap& bootstrap) {
  const std::size_t networks[2] = {scores[0].rows(), scores[1].rows()};
  const bool resample = bootstrap.possible() && std::min(networks[0], networks[1]) >= kFewModels;
  for (std::size_t mirror = 0; mirror < 2; ++mirror) {
    const std::size_t own = mirror, other = 1 - mirror;
    const Tails tails(scores[own], scores[other], mirror == 0 ? 1 : -1);
    const auto once = [](std::uint32_t) { return std::size_t{1}; };
    for (std::size_t level = 0; level < kFalsePositives.size(); ++level) {
      ScoreSummary::Tail& tail = summary.tails[2 * level + mirror];
      tail.answers = tails.negatives();
      const auto allowed = static_cast<std::size_t>(
          std::floor(kFalsePositives[level] * static_cast<double>(tails.negatives()) + 1e-9));
      tail.possible = allowed > 0;
      if (!tail.possible) continue;
      tail.rate = tails.rate(allowed, once, once, static_cast<double>(networks[own]));
      for (std::size_t r = 0; resample && r < std::min(bootstrap.resamples(), kTailResamples);
           ++r) {
        std::array<std::vector<std::uint32_t>, 2> times{std::vector<std::uint32_t>(networks[0]),
                                                        std::vector<std::uint32_t>(networks[1])};
        for (std::size_t side = 0; side < 2; ++side)
          for (const std::uint32_t drawn : bootstrap.drawn(r, side)) ++times[side][drawn];
        tail.resampled.push_back(tails.rate(
            allowed, [&](std::uint32_t n) { return std::size_t{times[own][n]}; },
            [&](std::uint32_t n) { return std::size_t{times[other][n]}; },
            static_cast<double>(networks[own])));
      }
    }
  }
}

Figure area_figure(const std::array<std::vector<double>, 2>& placements,
                   const ModelBootstrap& bootstrap) {
  const MeanStd first = mean_std(placements[0]), second = mean_std(placements[1]);
  Figure figure = Figure::of(first.mean, bootstrap.why_impossible());
  if (!bootstrap.possible()) return figure;
  const auto variance = [&](std::size_t side, const MeanStd& moments) {
    return moments.std * moments.std / static_cast<double>(placements[side].size());
  };
  const double v1 = variance(0, first), v2 = variance(1, second);
  const double half =
      student_t_975(welch_degrees(v1, placements[0].size(), v2, placements[1].size())) *
      std::sqrt(v1 + v2);
  figure.low = std::max(0.0, first.mean - half);
  figure.high = std::min(1.0, first.mean + half);
  return figure;
}

}  // namespace

std::array<std::vector<double>, 2> right_shares(const ScorePair& scores) {
  std::array<std::vector<double>, 2> shares;
  for (std::size_t side = 0; side < 2; ++side) {
    for (std::size_t n = 0; n < scores[side].rows(); ++n) {
      std::size_t above = 0, below = 0;
      for (const double score : scores[side].row(n)) {
        above += score > 0 ? 1 : 0;
        below += score < 0 ? 1 : 0;
      }
      const std::size_t right = side == 0 ? above : below,
                        ties = scores[side].cols() - above - below;
      shares[side].push_back((static_cast<double>(right) + static_cast<double>(ties) / 2) /
                             static_cast<double>(scores[side].cols()));
    }
  }
  return shares;
}

ScoreSummary summarise_scores(const ScorePair& scores, const ModelBootstrap& bootstrap) {
  OUBLI_ASSERT(!scores[0].empty() && !scores[1].empty());
  ScoreSummary summary;
  const std::array all{sorted(scores[0].flat()), sorted(scores[1].flat())};
  for (std::size_t side = 0; side < 2; ++side) {
    for (std::size_t n = 0; n < scores[side].rows(); ++n) {
      double sum = 0;
      for (const double score : scores[side].row(n)) {
        const double below = share_below(all[1 - side], score);
        sum += side == 0 ? below : 1 - below;
      }
      summary.placements[side].push_back(sum / static_cast<double>(scores[side].cols()));
    }
  }
  add_tails(summary, scores, bootstrap);
  return summary;
}

void ScoreSummary::add(const ScoreSummary& other) {
  const auto add_to = [](std::vector<double>& sum, const std::vector<double>& values) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  };
  for (std::size_t side = 0; side < 2; ++side) add_to(placements[side], other.placements[side]);
  for (std::size_t t = 0; t < kTails; ++t) {
    tails[t].possible = tails[t].possible && other.tails[t].possible;
    tails[t].answers = std::min(tails[t].answers, other.tails[t].answers);
    tails[t].rate += other.tails[t].rate;
    if (tails[t].possible) add_to(tails[t].resampled, other.tails[t].resampled);
  }
}

void ScoreSummary::divide(double classes) {
  for (auto& side : placements)
    for (double& value : side) value /= classes;
  for (Tail& tail : tails) {
    tail.rate /= classes;
    for (double& value : tail.resampled) value /= classes;
  }
}

ScoreFigures score_figures(const ScoreSummary& summary, const ModelBootstrap& bootstrap) {
  ScoreFigures figures{.area = area_figure(summary.placements, bootstrap), .tails = {}};
  for (std::size_t t = 0; t < kTails; ++t) {
    const ScoreSummary::Tail& tail = summary.tails[t];
    TailFigure& figure = figures.tails[t];
    figure.false_positives = kFalsePositives[t / 2];
    figure.first_positive = t % 2 == 0;
    figure.answers = tail.answers;
    if (!tail.possible) {
      figure.rate = Figure::missing(
          fmt::format("{} answers of the other population: it takes {:.0f} for one to be {} %",
                      tail.answers, 1 / figure.false_positives, 100 * figure.false_positives));
      continue;
    }
    figure.rate = Figure::of(tail.rate);
    if (tail.resampled.empty()) {
      figure.rate.reason = bootstrap.possible()
                               ? fmt::format("fewer than {} test networks", kFewModels)
                               : bootstrap.why_impossible();
      continue;
    }
    const std::vector<double> values = sorted(tail.resampled);
    const auto at = static_cast<std::size_t>(0.025 * static_cast<double>(values.size()));
    figure.rate.low = values[at];
    figure.rate.high = values[values.size() - 1 - at];
  }
  return figures;
}

}  // namespace oubli
