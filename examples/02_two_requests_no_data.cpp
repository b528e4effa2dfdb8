// A second deletion request months later: the data is gone, the feature means were kept.
#include <algorithm>
#include <cstdio>

#include "oubli/filtration/class_means.h"
#include "oubli/filtration/filtration.h"
#include "toy.h"

namespace {

// One request: the new weights, and the means without the forgotten class. (With the paper's solver
// a layer without a bias stays without one.)
struct State {
  oubli::Matrix<double> weights;
  oubli::Matrix<double> means;
};

State forget(const State& state, std::size_t c) {
  const oubli::HeadView head{.weights = oubli::tensor_view(state.weights.view(), "weights")};
  const oubli::Calibration calibration{.means = oubli::tensor_view(state.means.view(), "means")};
  const auto plan = oubli::plan_filtration(head, calibration, {{c}}, {}, oubli::Solver::paper);
  State next{oubli::to_matrix(plan.filter.apply(head).weights.view("weights")),
             oubli::Matrix<double>(state.means.rows() - 1, state.means.cols())};
  for (std::size_t j = 0, row = 0; j < state.means.rows(); ++j)
    if (j != c) std::ranges::copy(state.means.row(j), next.means.row(row++).begin());
  return next;
}

}  // namespace

int main() {
  const toy::Problem toy = toy::make();
  oubli::ClassMeans means(toy::kClasses, toy::kFeatures);
  means.add(toy.features.view(), toy.labels);
  State state{toy.weights, means.means()};
  state = forget(state, 0);
  std::printf("after the first request: %zu classes\n", state.weights.rows());
  state = forget(state, 1);  // numbered as the current layer numbers them
  std::printf("after the second, without data: %zu classes\n", state.weights.rows());
  return state.weights.rows() == 2 ? 0 : 1;
}
