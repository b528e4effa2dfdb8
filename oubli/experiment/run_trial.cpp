#include "oubli/experiment/run_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "oubli/array/npy.h"
#include "oubli/base/class_split.h"
#include "oubli/base/error.h"
#include "oubli/base/progress.h"
#include "oubli/data/load.h"
#include "oubli/experiment/explained_logits.h"
#include "oubli/filtration/class_means.h"
#include "oubli/nn/network.h"
#include "oubli/nn/network_file.h"
#include "oubli/nn/spec.h"
#include "oubli/nn/train.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;

nn::NetworkSpec spec_of(const Recipe& recipe, std::size_t hidden, std::size_t classes) {
  if (recipe.architecture == "cnn") return nn::cnn_network(hidden, classes);
  if (recipe.architecture == "residual") return nn::residual_network(classes);
  nn::NetworkSpec spec = nn::mlp_network(classes);
  const auto layer = std::ranges::find(spec.layers, nn::LayerKind::dense, &nn::LayerSpec::kind);
  OUBLI_ASSERT(layer != spec.layers.end());
  layer->units = hidden;
  return spec;
}

template <typename T>
fs::path save(const fs::path& path, const Matrix<T>& values) {
  const Tensor tensor = to_tensor<T>(values.view());
  write_npy(path, tensor.view(path.string()));
  return path;
}

// The files of one finished trial.
std::vector<fs::path> train_and_save(const RunFolder& folder, const Trial& trial,
                                     const TrialData& data, const std::stop_token& stop) {
  const RunConfig& config = folder.config();
  const Recipe& recipe = recipe_of(config.experiment);
  const std::size_t classes = data.train.classes();
  nn::TrainOptions options{.epochs = config.epochs != 0 ? config.epochs : recipe.epochs,
                           .batch = recipe.batch,
                           .optimizer = {},
                           .seed = config.seed,
                           .model = trial_number(trial),
                           .without = trial.without};
  const nn::Network network = train(spec_of(recipe, trial.hidden, classes - trial.without.size()),
                                    data.train, options, stop);

  std::vector<fs::path> files;
  const Matrix<float> logits = network.logits(data.test);
  require_finite(logits.view(), trial.id + " logits");
  files.push_back(save(folder.logits(trial.id), logits));
  if (trial.role == Role::seen) {
    ClassMeans means(classes, classes);
    means.add(network.logits(data.train).view(), data.train.labels);
    files.push_back(save(folder.means(trial.id), means.means()));
    options.without = config.forget;
    const nn::Network refit = nn::refit_head(network, data.train, options, stop);
    files.push_back(save(folder.refit(trial.id), refit.logits(data.test)));
    std::ranges::copy(save_explained(folder, trial.id, network,
                                     [&](MeansSource source) -> const ImageSet& {
                                       return source == MeansSource::train ? data.train : data.test;
                                     }),
                      std::back_inserter(files));
  }
  if (config.keep_models) {
    std::vector<std::string> names;
    for (const std::size_t c : split_classes(classes, trial.without).retained)
      names.push_back(data.train.class_names[c]);
    files.push_back(folder.model(trial.id));
    nn::save_network(network, names, files.back());
  }
  return files;
}

}  // namespace

TrialData load_trial_data(const RunConfig& config) {
  const std::string& name = recipe_of(config.experiment).data_set;
  return {.train = load_data_set(name, Split::train), .test = load_data_set(name, Split::test)};
}

void run_trial(const RunFolder& folder, const Trial& trial, const TrialData& data,
               const std::string& who, const std::stop_token& stop) {
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const auto mark = folder.mark_underway(trial.id, who);
  std::string reason;
  try {
    const std::vector<fs::path> files = train_and_save(folder, trial, data, stop);
    folder.record_done(trial.id, files, seconds());
    return;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) throw;
    reason = error.what();
  } catch (const std::bad_alloc&) {
    reason = "out of memory";
  }
  say(fmt::format("{} failed: {}", trial.id, reason));
  folder.record_failed(trial.id, reason, seconds());
}

}  // namespace oubli
