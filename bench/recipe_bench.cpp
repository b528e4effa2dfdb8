// recipe_bench HIDDEN MODELS EPOCHS VARIANT: networks of `oubli reproduce cifar10` (seed 1) that
// saw everything, trained again with one thing of the recipe changed, for bench/cifar_checks.py. A
// line of JSON for each network and epoch from the fourth on: accuracy and losses on test images of
// retained classes, on all, and on retained ones after naive deletion.
// VARIANT: recipe; epsilon (Adam's 1e-8 instead of Keras' 1e-7); ordered (images never shuffled);
// same (padding of the convolutions).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/training_steps.h"
#include "oubli/base/error.h"
#include "oubli/data/load.h"
#include "oubli/experiment/run_config.h"

namespace {

using namespace oubli;

constexpr std::size_t kFirstReported = 4;
constexpr std::uint32_t kForgotten = 0;

// Keras' cross-entropy of softmax outputs in single precision: probabilities are cut off at 1e-7.
double keras_loss(std::span<const float> logits, std::uint32_t label) {
  const float top = *std::ranges::max_element(logits);
  float sum = 0;
  for (const float z : logits) sum += std::exp(z - top);
  constexpr float kEpsilon = 1e-7F;
  const float probability = std::exp(logits[label] - top) / sum;
  return -std::log(std::clamp(probability, kEpsilon, 1 - kEpsilon));
}

// The mean cross-entropy in single precision, from the logits and summed in it.
double single_loss(MatrixView<const float> logits, std::span<const std::uint32_t> labels,
                   std::uint32_t without) {
  float loss = 0, count = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == without) continue;
    const std::span<const float> row = logits.row(i);
    const float top = *std::ranges::max_element(row);
    float sum = 0;
    for (const float z : row) sum += std::exp(z - top);
    loss += std::log(sum) - (row[labels[i]] - top);
    count += 1;
  }
  return static_cast<double>(loss / count);
}

void report(const nn::Network& network, const ImageSet& test, std::size_t model,
            std::size_t epoch) {
  const Matrix<float> logits = network.logits(test);
  nn::ScoreSum all, retained, naive;
  double keras = 0;
  for (std::size_t i = 0; i < test.size(); ++i) {
    all.add(logits.row(i), test.labels[i]);
    if (test.labels[i] == kForgotten) continue;
    retained.add(logits.row(i), test.labels[i]);
    naive.add(logits.row(i).subspan(kForgotten + 1), test.labels[i] - 1);
    keras += keras_loss(logits.row(i), test.labels[i]);
  }
  static_assert(kForgotten == 0);  // what is cut off is the first column
  const nn::Score of_all = all.score(), of_retained = retained.score(), of_naive = naive.score();
  const nlohmann::json line{{"model", model},
                            {"epoch", epoch},
                            {"accuracy", of_retained.accuracy},
                            {"loss", of_retained.loss},
                            {"loss_keras", keras / static_cast<double>(of_retained.count)},
                            {"loss_single", single_loss(logits.view(), test.labels, kForgotten)},
                            {"accuracy_all", of_all.accuracy},
                            {"loss_all", of_all.loss},
                            {"accuracy_naive", of_naive.accuracy},
                            {"loss_naive", of_naive.loss}};
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

void run(std::size_t hidden, std::size_t models, std::size_t epochs, const std::string& variant) {
  const ImageSet train = load_data_set("cifar10", Split::train);
  const ImageSet test = load_data_set("cifar10", Split::test);
  nn::NetworkSpec spec = nn::cnn_network(hidden);
  nn::TrainOptions options;
  options.seed = 1;
  if (variant == "epsilon") {
    options.optimizer.epsilon = 1e-8;
  } else if (variant == "same") {
    for (nn::LayerSpec& layer : spec.layers)
      if (layer.kind == nn::LayerKind::conv) layer.padding = nn::Padding::same;
  } else if (variant != "recipe" && variant != "ordered") {
    fail(ErrorCode::usage, "no variant '{}'", variant);
  }
  const nn::SingleThread single;
  for (std::size_t model = 0; model < models; ++model) {
    Trial trial;
    trial.hidden = hidden;
    trial.role = Role::seen;
    trial.model = model;
    options.model = trial_number(trial);
    TrainingSteps training(spec, train, options);
    for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
      static_cast<void>(training.epoch(epoch, variant != "ordered"));
      if (epoch + 1 >= kFirstReported) report(training.network(), test, model, epoch + 1);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 5) return 2;
    run(std::stoul(argv[1]), std::stoul(argv[2]), std::stoul(argv[3]), argv[4]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "recipe_bench: {}\n", error.what());
    return 1;
  }
}
