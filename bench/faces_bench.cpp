// faces_bench MODEL FOLDER: network number MODEL of those that saw everybody in `oubli reproduce
// faces` (seed 1), trained again. For each epoch: the mean loss of its steps, and the accuracy on
// the training images of the network as it is then, with the running statistics, with the
// statistics of batches of 8 as in training, and with running statistics to which 600 further
// batches were shown while the weights stood still. Into FOLDER goes what training was continued
// from after kReplayFrom epochs, with the losses of the steps that followed, for bench/faces.py.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "bench/training_steps.h"
#include "oubli/base/file.h"
#include "oubli/data/load.h"
#include "oubli/experiment/run_config.h"
#include "oubli/nn/train.h"

namespace {

using namespace oubli;
namespace fs = std::filesystem;

constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kEpochs = 15;
constexpr std::size_t kBatch = 8;
constexpr std::size_t kPasses = 12;  // of 50 batches: .99^600 of the old statistics is left, 0.2 %
constexpr std::size_t kReplayFrom = 11;
constexpr std::size_t kReplayedEpochs = 2;

template <typename T>
void write_raw(const fs::path& path, const std::vector<T>& values) {
  write_file(path, std::as_bytes(std::span(values)));
}

nn::TrainOptions options_of(std::size_t model) {
  Trial trial;
  trial.hidden = 256;
  trial.role = Role::seen;
  trial.model = model;
  nn::TrainOptions options;
  options.batch = kBatch;
  options.seed = kSeed;
  options.model = trial_number(trial);
  return options;
}

class Retraining : public TrainingSteps {
 public:
  Retraining(const ImageSet& set, std::size_t model)
      : TrainingSteps(nn::residual_network(set.classes()), set, options_of(model)) {}

  void print_accuracies() {
    nn::ParameterStore copy = executor_.import_parameters(executor_.export_parameters(store_));
    const double running = accuracy(copy);
    // the forward pass of training moves the running statistics and nothing else
    executor_.prepare(copy);
    std::size_t right = 0;
    for (std::size_t pass = 0; pass < kPasses; ++pass)
      for (std::size_t first = 0; first < order_.size(); first += kBatch) {
        const std::vector<std::uint32_t> labels = forward(executor_, copy, first);
        for (std::size_t i = 0; pass == 0 && i < kBatch; ++i) {
          const auto row = executor_.logits().subspan(i * spec_.classes, spec_.classes);
          const auto top = std::ranges::max_element(row) - row.begin();
          right += static_cast<std::size_t>(top) == labels[i] ? 1U : 0U;
        }
      }
    const double batches = static_cast<double>(right) / static_cast<double>(order_.size());
    fmt::print("accuracy with running statistics {:.1f} %, of batches {:.1f} %, settled {:.1f} %\n",
               100 * running, 100 * batches, 100 * accuracy(copy));
    std::fflush(stdout);
  }

  void write_state(const fs::path& folder) const {
    nlohmann::json parameters = nlohmann::json::array();
    for (const nn::Parameter& p : executor_.export_parameters(store_))
      parameters.push_back({{"name", p.name}, {"shape", p.shape}, {"trained", p.trained()}});
    const nlohmann::json spec{
        {"network", to_json(spec_)}, {"parameters", parameters}, {"steps", updater_.steps()}};
    write_file(folder / "spec.json", spec.dump());
    write_raw(folder / "parameters.f32", plain(store_));
    write_raw(folder / "first.f32", plain(updater_.first_moments()));
    write_raw(folder / "second.f32", plain(updater_.second_moments()));
    write_raw(folder / "pixels.u8", set_.pixels);
    write_raw(folder / "labels.u32", set_.labels);
  }

 private:
  [[nodiscard]] double accuracy(const nn::ParameterStore& store) const {
    const nn::Network network(spec_, executor_.export_parameters(store));
    return nn::score(network.logits(set_), set_.labels).accuracy;
  }
  // All parameters, or zeros where there are none, one after another.
  [[nodiscard]] std::vector<float> plain(const nn::ParameterStore& store) const {
    nn::ParameterStore whole;
    for (std::size_t p = 0; p < store.size(); ++p) {
      whole.emplace_back(store_[p].size());
      std::ranges::copy(store[p].span(), whole.back().data());
    }
    std::vector<float> values;
    for (const nn::Parameter& p : executor_.export_parameters(whole))
      values.insert(values.end(), p.values.begin(), p.values.end());
    return values;
  }
};

void retrain(std::size_t model, const fs::path& folder) {
  const ImageSet set = load_data_set("faces", Split::train);
  if (set.size() % kBatch != 0) fail(ErrorCode::bad_input, "{} faces", set.size());
  const nn::SingleThread single;
  Retraining training(set, model);
  std::vector<std::uint32_t> replayed;
  std::vector<double> losses_after;
  for (std::size_t epoch = 0; epoch < kEpochs; ++epoch) {
    if (epoch == kReplayFrom) training.write_state(folder);
    const std::vector<double> losses = training.epoch(epoch);
    if (epoch >= kReplayFrom && epoch < kReplayFrom + kReplayedEpochs) {
      replayed.insert(replayed.end(), training.order().begin(), training.order().end());
      losses_after.insert(losses_after.end(), losses.begin(), losses.end());
    }
    fmt::print("epoch {:2}: mean loss {:.4f}, largest {:.3f}; ", epoch + 1,
               std::reduce(losses.begin(), losses.end()) / static_cast<double>(losses.size()),
               *std::ranges::max_element(losses));
    training.print_accuracies();
  }
  write_raw(folder / "order.u32", replayed);
  write_raw(folder / "losses.f64", losses_after);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) return 2;
    retrain(std::stoul(argv[1]), argv[2]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "faces_bench: {}\n", error.what());
    return 1;
  }
}
