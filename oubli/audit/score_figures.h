#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/audit/bootstrap.h"
#include "oubli/audit/figure.h"

namespace oubli {

// What scores tell beyond answers: how well an attack tells the populations apart at every
// threshold. Scores: per population, test networks x answers; large ones say "first population".
using ScorePair = std::array<Matrix<double>, 2>;

// The rate of true positives where at most a given share of the others is taken for positive, as
// membership attacks are reported [Carlini et al. 2022]: what an attacker finds who must hardly
// ever be wrong. Both ways round, because an attack may be sure of either population.
struct TailFigure {
  double false_positives = 0;  // 0.01 or 0.001
  bool first_positive = true;  // else the mirror: the second population is to be found
  std::size_t answers = 0;     // of the other population, on which the threshold stands
  Figure rate;
};

// {first population, mirror} at 1 %, then at 0.1 %.
inline constexpr std::size_t kTails = 4;

struct ScoreFigures {
  // Area under the ROC curve: the chance that an answer of the first population scores above one of
  // the second, ties half. Below 1/2 it tells as well: 1 - AUC is its mirror. Intervals: clusters
  // of answers by network [Obuchowski 1997].
  Figure area;
  std::array<TailFigure, kTails> tails;
};

// The same before intervals are taken, so that classes, which share their networks, can be averaged
// first.
struct ScoreSummary {
  // Per test network: the share of the other population's scores on the right side of its own.
  std::array<std::vector<double>, 2> placements;
  struct Tail {
    double rate = 0;
    std::vector<double> resampled;  // none where there are too few networks
    std::size_t answers = 0;
    bool possible = false;  // at least one false positive is allowed
  };
  std::array<Tail, kTails> tails;

  // Adds the figures of another class, and divides by the number of classes.
  void add(const ScoreSummary& other);
  void divide(double classes);
};

[[nodiscard]] ScoreSummary summarise_scores(const ScorePair& scores,
                                            const ModelBootstrap& bootstrap);
[[nodiscard]] ScoreFigures score_figures(const ScoreSummary& summary,
                                         const ModelBootstrap& bootstrap);

// Shares of right answers per network: the first population's are right where positive; 0 is half.
[[nodiscard]] std::array<std::vector<double>, 2> right_shares(const ScorePair& scores);

}  // namespace oubli
