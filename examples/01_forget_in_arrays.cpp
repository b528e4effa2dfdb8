// Forget one class of a linear layer, given features of labelled data.
#include <cstdio>

#include "oubli/filtration/class_means.h"
#include "oubli/filtration/filtration.h"
#include "oubli/filtration/mean_identity.h"
#include "toy.h"

int main() {
  const toy::Problem toy = toy::make();

  // 1. The mean of the features over every class, in one pass over the data.
  oubli::ClassMeans means(toy::kClasses, toy::kFeatures);
  means.add(toy.features.view(), toy.labels);

  // 2. A filter that forgets class 2 by normalization; `auto` picks the solver and says why.
  const oubli::HeadView head{.weights = oubli::tensor_view(toy.weights.view(), "weights")};
  const oubli::Calibration calibration{.means = oubli::tensor_view(means.means().view(), "means"),
                                       .within_variance = means.within_variance()};
  const std::size_t forget[] = {2};
  const oubli::FiltrationPlan plan = oubli::plan_filtration(head, calibration, forget, {});
  std::printf("solver %s: %s\n", std::string(name_of(plan.solver->chosen)).c_str(),
              plan.solver->reason.c_str());

  // 3. The new layer, and the check that it does to the class means what the theory says.
  const oubli::NewHead next = plan.filter.apply(head);
  oubli::HeadView new_head{.weights = next.weights.view("new weights")};
  if (next.bias) new_head.bias = next.bias->view("new bias");
  const oubli::MeanIdentity check =
      oubli::check_mean_identity(head, new_head, plan.filter, calibration.means);
  std::printf("%zu classes left; mean identity %s (worst error %.1e)\n", new_head.classes(),
              check.holds() ? "holds" : "FAILS", check.largest_error);
  return check.holds() && new_head.classes() == 3 ? 0 : 1;
}
