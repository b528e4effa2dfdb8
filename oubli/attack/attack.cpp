#include "oubli/attack/attack.h"

#include "oubli/attack/adaboost.h"
#include "oubli/attack/logistic_regression.h"
#include "oubli/attack/nearest_neighbours.h"
#include "oubli/attack/random_forest.h"

namespace oubli {
namespace {

template <AttackModel M>
std::vector<std::uint8_t> fit_predict(const typename M::Options& options, MatrixView<const float> x,
                                      std::span<const std::uint8_t> y,
                                      MatrixView<const float> x_test, RandomStream& random) {
  return M::fit(x, y, options, random).predict(x_test);
}

}  // namespace

std::vector<std::uint8_t> run_attack(Attack attack, MatrixView<const float> x,
                                     std::span<const std::uint8_t> y,
                                     MatrixView<const float> x_test, RandomStream& random,
                                     unsigned workers) {
  switch (attack) {
    case Attack::nearest_neighbours:
      return fit_predict<NearestNeighbours>({.workers = workers}, x, y, x_test, random);
    case Attack::forest:
    case Attack::strong_forest: {
      RandomForestOptions options =
          attack == Attack::forest ? RandomForest::kPaper : RandomForest::kStrong;
      options.workers = workers;
      return fit_predict<RandomForest>(options, x, y, x_test, random);
    }
    case Attack::adaboost:
      return fit_predict<AdaBoost>({.workers = workers}, x, y, x_test, random);
    case Attack::logistic:
      return fit_predict<LogisticRegression>({}, x, y, x_test, random);
  }
  OUBLI_ASSERT(false);
  return {};
}

}  // namespace oubli
