#include "oubli/rivals/filtering.h"

#include "oubli/base/error.h"
#include "oubli/filtration/class_means.h"
#include "oubli/filtration/filtration.h"

namespace oubli {
namespace {

Unlearned filtered(const RivalInput& input, Method method) {
  Meter meter;
  if (method == Method::naive) return meter.unlearned(without_outputs(input.network, input.split));
  TrainingImages sample = sample_images(input);
  sample.retained.insert(sample.retained.end(), sample.forgotten.begin(), sample.forgotten.end());
  const ImageSet images = select_images(input.train, sample.retained);
  const Matrix<float> features = input.network.features(images);
  meter.add_forward(static_cast<double>(images.size()));
  ClassMeans means(input.split.classes, features.cols());
  means.add(features.view(), images.labels);

  const auto weights = input.network.head_weights();
  const auto bias = input.network.head_bias();
  const HeadView head{
      .weights = tensor_view<float>(weights, "head"),
      .bias = TensorView{DType::f32, {bias.size()}, std::as_bytes(bias), "head's bias"}};
  const Calibration calibration{.space = Space::features,
                                .means = tensor_view<double>(means.means().view(), "means"),
                                .within_variance = means.within_variance(),
                                .sample = tensor_view<float>(features.view(), "features"),
                                .sample_labels = images.labels};
  const FiltrationPlan plan =
      plan_filtration(head, calibration, input.split.forgotten,
                      {.method = method, .seed = input.recipe.seed, .model = input.recipe.model});
  const NewHead filtered = plan.filter.apply(head);
  OUBLI_ASSERT(filtered.bias.has_value());
  const std::vector<double> new_bias = to_vector(filtered.bias->view("new bias"));
  nn::Network result = input.network;
  result.set_head(to_float_matrix(filtered.weights.view("new head")),
                  std::vector<float>(new_bias.begin(), new_bias.end()));
  return meter.unlearned(std::move(result));
}

}  // namespace

std::vector<Rival> filtering_rivals() {
  std::vector<Rival> rivals;
  for (const char* name : {"naive", "normalization", "explained"}) {
    const auto method = find_named<Method>(name);
    if (!method) continue;
    rivals.push_back({.name = name, .names = {name}, .apply = [method](const RivalInput& input) {
                        return std::vector{filtered(input, *method)};
                      }});
  }
  return rivals;
}

Unlearned refit(const RivalInput& input) {
  Meter meter;
  nn::TrainOptions options = input.recipe;
  options.without = input.split.forgotten;
  nn::Network result = nn::refit_head(input.network, input.train, options, input.stop);
  const auto samples = static_cast<double>(images_of(input).retained.size());
  double weights = 0;
  for (const nn::Parameter& parameter : input.network.parameters())
    weights += static_cast<double>(parameter.values.size());
  const auto head = static_cast<double>(result.head_weights().flat().size());
  meter.add_forward(samples);
  meter.add_gradients(samples * static_cast<double>(options.epochs) * head / weights);
  return meter.unlearned(std::move(result));
}

}  // namespace oubli
