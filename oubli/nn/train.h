#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "oubli/data/image_set.h"
#include "oubli/nn/network.h"

namespace oubli::nn {

// Keras' definitions and defaults.
struct Optimizer {
  enum class Kind { adam, sgd };

  Kind kind = Kind::adam;
  double learning_rate = 1e-3;
  double beta1 = 0.9;  // adam
  double beta2 = 0.999;
  double epsilon = 1e-7;
  double momentum = 0.9;    // sgd
  double weight_decay = 0;  // sgd: gradient += weight_decay * weight, for weights only
};

struct TrainOptions {
  std::size_t epochs = 6;
  std::size_t batch = 32;
  Optimizer optimizer;
  // Everything random comes from (seed, model).
  std::uint64_t seed = 0;
  std::uint64_t model = 0;
  // Classes to train without; the others are numbered anew, in order, and spec.classes counts them.
  std::vector<std::size_t> without;
};

struct EpochReport {
  std::size_t epoch = 0;  // from 0
  double loss = 0;        // mean cross-entropy over the epoch's batches, as they were met
};

// Trains a fresh network on the calling thread. Error{interrupted} soon after a stop request.
[[nodiscard]] Network train(const NetworkSpec& spec, const ImageSet& set,
                            const TrainOptions& options, const std::stop_token& stop = {},
                            const std::function<void(const EpochReport&)>& on_epoch = {});

// The network with a fresh head, trained as `options` say on its frozen features of `set` without
// the classes options.without.
[[nodiscard]] Network refit_head(const Network& network, const ImageSet& set,
                                 const TrainOptions& options, const std::stop_token& stop = {});

struct Score {
  double accuracy = 0;  // share of images whose largest logit is their label's
  double loss = 0;      // mean cross-entropy
  std::size_t count = 0;
};

// A score that grows row by row.
class ScoreSum {
 public:
  // Error{bad_input} if the label is not below the number of logits.
  void add(std::span<const float> logits, std::uint32_t label);
  [[nodiscard]] Score score() const;

 private:
  Score sum_;
};

// Scores logits (images x labels in use) against labels; images whose label is not below the number
// of columns are an Error{bad_input}.
[[nodiscard]] Score score(MatrixView<const float> logits, std::span<const std::uint32_t> labels);

}  // namespace oubli::nn
