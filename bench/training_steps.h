#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "oubli/base/random.h"
#include "oubli/data/image_set.h"
#include "oubli/nn/executor.h"
#include "oubli/nn/images.h"
#include "oubli/nn/kernels.h"
#include "oubli/nn/network.h"
#include "oubli/nn/optimizer.h"
#include "oubli/nn/train.h"

namespace oubli {

// nn::train() step by step, with looks at the network between epochs: the same numbers from the
// same (seed, model).
class TrainingSteps {
 public:
  TrainingSteps(nn::NetworkSpec spec, const ImageSet& set, const nn::TrainOptions& options)
      : set_(set),
        options_(options),
        spec_(std::move(spec)),
        executor_(compile(spec_), options.batch, nn::Executor::Mode::training),
        store_(executor_.import_parameters(
            nn::Network(spec_, options.seed, options.model).parameters())),
        updater_(options.optimizer, compile(spec_), store_),
        order_(set.size()) {
    if (set.size() % options.batch != 0)
      rest_.emplace(compile(spec_), set.size() % options.batch, nn::Executor::Mode::training,
                    &executor_);
  }

  // The losses of its steps. Without `shuffled` the images are met in the order of their file.
  std::vector<double> epoch(std::size_t number, bool shuffled = true) {
    std::iota(order_.begin(), order_.end(), 0U);
    RandomStream random(options_.seed, task_id("shuffle", {options_.model, number}));
    if (shuffled) random.shuffle(std::span(order_));
    std::vector<double> losses;
    for (std::size_t first = 0; first < order_.size(); first += options_.batch) {
      nn::Executor& executor = first + options_.batch <= order_.size() ? executor_ : *rest_;
      executor.prepare(store_);
      const std::vector<std::uint32_t> labels = forward(executor, store_, first);
      losses.push_back(nn::kernels::cross_entropy(executor.logits(), spec_.classes, labels,
                                                  executor.logits_gradient().data()));
      updater_.begin_step();
      executor.backward(store_, &updater_);
    }
    return losses;
  }

  // As it is now.
  [[nodiscard]] nn::Network network() const { return {spec_, executor_.export_parameters(store_)}; }
  [[nodiscard]] const std::vector<std::uint32_t>& order() const { return order_; }

 protected:
  // The batch from `first` on; its labels.
  std::vector<std::uint32_t> forward(nn::Executor& executor, nn::ParameterStore& store,
                                     std::size_t first) const {
    const nn::Shape shape{spec_.channels, spec_.height, spec_.width, false};
    std::vector<std::uint32_t> labels;
    for (std::size_t i = 0; i < executor.batch(); ++i) {
      nn::to_channels_last(shape, set_.image(order_[first + i]),
                           executor.input().data() + i * shape.size());
      labels.push_back(set_.labels[order_[first + i]]);
    }
    executor.forward(store);
    return labels;
  }

  const ImageSet& set_;
  nn::TrainOptions options_;
  nn::NetworkSpec spec_;
  nn::Executor executor_;
  std::optional<nn::Executor> rest_;
  nn::ParameterStore store_;
  nn::Updater updater_;
  std::vector<std::uint32_t> order_;
};

}  // namespace oubli
