// Forgets class 1 of a 3 x 2 head through the installed library.
#include <oubli/oubli.h>

#include <cstdio>

int main() {
  const oubli::Matrix<double> weights(3, 2, {2, 0, 0, 2, -1, -1});
  const oubli::Matrix<double> means(3, 2, {1, 0, 0, 1, -1, -1});
  const oubli::HeadView head{.weights = oubli::tensor_view(weights.view(), "W")};
  const oubli::Calibration calibration{.means = oubli::tensor_view(means.view(), "means")};
  const std::size_t forget[] = {1};
  const auto plan = oubli::plan_filtration(head, calibration, forget, {});
  const oubli::NewHead next = plan.filter.apply(head);
  std::printf("%zu classes left, solver %s\n", next.weights.shape[0],
              std::string(oubli::name_of(plan.solver->chosen)).c_str());
  return next.weights.shape[0] == 2 ? 0 : 1;
}
