// A layer with a bias, in memory that belongs to the calling program: stored features x classes in
// float32, as Keras keeps it. Nothing is copied before the new layer.
#include <cstdio>
#include <span>
#include <vector>

#include "oubli/oubli.h"
#include "toy.h"

int main() {
  const toy::Problem toy = toy::make();
  std::vector<float> kernel(toy::kFeatures * toy::kClasses), bias{0.5F, -1, 0, 2};
  for (std::size_t j = 0; j < toy::kClasses; ++j)
    for (std::size_t d = 0; d < toy::kFeatures; ++d)
      kernel[d * toy::kClasses + j] = static_cast<float>(toy.weights(j, d));

  // Views: type, shape, bytes, and what to call them in messages.
  const oubli::HeadView head{
      .weights = {oubli::DType::f32,
                  {toy::kFeatures, toy::kClasses},
                  std::as_bytes(std::span(kernel)),
                  "kernel"},
      .transposed = true,
      .bias = oubli::TensorView{
          oubli::DType::f32, {toy::kClasses}, std::as_bytes(std::span(bias)), "bias"}};
  oubli::ClassMeans means(toy::kClasses, toy::kFeatures);
  means.add(toy.features.view(), toy.labels);
  const oubli::Calibration calibration{.means = oubli::tensor_view(means.means().view(), "means"),
                                       .within_variance = means.within_variance()};
  const std::size_t forget[] = {1};
  const oubli::FiltrationPlan plan = oubli::plan_filtration(head, calibration, forget, {});
  const oubli::NewHead next = plan.filter.apply(head);

  // The new layer is stored as the old one was: features x classes, float32, with a bias.
  const oubli::HeadView new_head{.weights = next.weights.view("new kernel"),
                                 .transposed = true,
                                 .bias = next.bias->view("new bias")};
  const oubli::MeanIdentity check =
      oubli::check_mean_identity(head, new_head, plan.filter, calibration.means);
  std::printf("%zu x %zu, bias of %zu; mean identity %s\n", new_head.features(), new_head.classes(),
              next.bias->shape[0], check.holds() ? "holds" : "FAILS");
  return check.holds() && new_head.classes() == toy::kClasses - 1 &&
                 new_head.features() == toy::kFeatures
             ? 0
             : 1;
}
