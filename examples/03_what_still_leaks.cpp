// How well do the remaining logits of one model detect inputs of the forgotten class?
#include <cstdio>

#include "oubli/audit/recognition.h"
#include "oubli/filtration/class_means.h"
#include "oubli/filtration/filtration.h"
#include "toy.h"

int main() {
  const toy::Problem toy = toy::make();
  const oubli::HeadView head{.weights = oubli::tensor_view(toy.weights.view(), "weights")};
  oubli::Matrix<double> features(toy::kSamples, toy::kFeatures);
  for (std::size_t i = 0; i < features.flat().size(); ++i)
    features.flat()[i] = static_cast<double>(toy.features.flat()[i]);
  const oubli::Matrix<double> logits = oubli::logits_of(head, features);

  // Logits are all one has here, as an auditor would.
  oubli::ClassMeans means(toy::kClasses, toy::kClasses);
  means.add(logits.view(), toy.labels);
  const oubli::Calibration calibration{.space = oubli::Space::logits,
                                       .means = oubli::tensor_view(means.means().view(), "means")};
  const std::size_t forget[] = {3};
  const auto filtration = oubli::Filtration::solve_on_logits(calibration, forget);

  bool sound = true;
  for (const oubli::Method method : {oubli::Method::naive, oubli::Method::normalization}) {
    const oubli::Matrix<double> filtered =
        filtration.logit_filter({.method = method})->apply(logits);
    oubli::Matrix<float> shown(filtered.rows(), filtered.cols());
    for (std::size_t i = 0; i < shown.flat().size(); ++i)
      shown.flat()[i] = static_cast<float>(filtered.flat()[i]);
    const oubli::Recognition leak = oubli::measure_recognition(shown, toy.labels, forget).at(0);
    std::printf("%-14s ghost logit AUC %.3f, linear read-out AUC %.3f\n",
                std::string(name_of(method)).c_str(), leak.ghost, leak.readout.value_or(-1));
    sound = sound && leak.ghost >= 0.5 && leak.ghost <= 1;
  }
  return sound ? 0 : 1;
}
