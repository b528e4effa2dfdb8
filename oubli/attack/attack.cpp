#include "oubli/attack/attack.h"

#include <algorithm>

#include "oubli/attack/adaboost.h"
#include "oubli/attack/logistic_regression.h"
#include "oubli/attack/nearest_neighbours.h"
#include "oubli/attack/random_forest.h"

namespace oubli {
namespace {

template <AttackModel M>
std::vector<double> fit_score(const typename M::Options& options, MatrixView<const float> x,
                              std::span<const std::uint8_t> y, MatrixView<const float> x_test,
                              RandomStream& random) {
  return M::fit(x, y, options, random).score(x_test);
}

}  // namespace

std::vector<std::uint8_t> labels_of(std::span<const double> scores) {
  std::vector<std::uint8_t> labels(scores.size());
  std::ranges::transform(scores, labels.begin(), [](double score) { return score > 0 ? 1 : 0; });
  return labels;
}

std::string_view title_of(Attack attack) {
  switch (attack) {
    case Attack::nearest_neighbours:
      return "5 nearest neighbours";
    case Attack::forest:
      return "random forest (10 trees)";
    case Attack::adaboost:
      return "AdaBoost";
    case Attack::logistic:
      return "logistic regression";
    case Attack::strong_forest:
      return "random forest (100 deep trees)";
    case Attack::per_image:
      return "likelihood ratio per image";
    case Attack::per_image_spread:
      return "likelihood ratio per image, own variances";
  }
  return "?";
}

std::vector<double> run_attack(Attack attack, MatrixView<const float> x,
                               std::span<const std::uint8_t> y, MatrixView<const float> x_test,
                               RandomStream& random, unsigned workers) {
  switch (attack) {
    case Attack::nearest_neighbours:
      return fit_score<NearestNeighbours>({.workers = workers}, x, y, x_test, random);
    case Attack::forest:
    case Attack::strong_forest: {
      RandomForestOptions options =
          attack == Attack::forest ? RandomForest::kPaper : RandomForest::kStrong;
      options.workers = workers;
      return fit_score<RandomForest>(options, x, y, x_test, random);
    }
    case Attack::adaboost:
      return fit_score<AdaBoost>({.workers = workers}, x, y, x_test, random);
    case Attack::logistic:
      return fit_score<LogisticRegression>({}, x, y, x_test, random);
    case Attack::per_image:
    case Attack::per_image_spread:
      break;
  }
  OUBLI_ASSERT(false);
  return {};
}

}  // namespace oubli
