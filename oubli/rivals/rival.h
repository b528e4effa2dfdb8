#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "oubli/base/class_split.h"
#include "oubli/data/image_set.h"
#include "oubli/nn/network.h"
#include "oubli/nn/train.h"

namespace oubli {

// Ways to make a trained network forget classes, written from their published descriptions, so that
// one audit can compare them. A rival is a function from a network, its training data, a request
// and a seed to a network of the retained classes.

struct RivalInput {
  const nn::Network& network;  // trained on everything
  const ImageSet& train;       // what it was trained on
  ClassSplit split;
  nn::TrainOptions
      recipe;  // how such networks are trained; its seed and model address random numbers
  std::stop_token stop = {};
};

// What it came to, and what it cost: in sample-gradients (one sample forward and backward through
// the whole network; forward alone is a third of one; through a part of the network, that part's
// share of the weights) and in seconds of processor time.
struct Unlearned {
  nn::Network network;  // one output per retained class
  double gradients = 0;
  double seconds = 0;
};

// A rival may stop at several places of one run, e.g. after 1/4, 1 and 2 epochs: one name and one
// result for each, costs counted from the beginning.
struct Rival {
  std::string name = {};  // of all its stages: "fine-tuning"
  std::vector<std::string> names;
  std::function<std::vector<Unlearned>(const RivalInput& input)> apply;
};

// All of them, in the order of the table. Constants were chosen on the classes kTuningClasses,
// which no table reports.
[[nodiscard]] std::vector<Rival> all_rivals();
// Those of these names, and naive, which others are compared with; all if there are no names.
// Error{usage} with the nearest name if there is none of one.
[[nodiscard]] std::vector<Rival> rivals_named(std::span<const std::string> names);
inline constexpr std::size_t kTuningClasses[] = {0, 1, 4, 5};

// Counts what a rival uses, from its construction on, on the calling thread.
class Meter {
 public:
  Meter();
  void add_gradients(double samples) { gradients_ += samples; }
  void add_forward(double samples) { gradients_ += samples / 3; }
  [[nodiscard]] Unlearned unlearned(nn::Network network) const;

 private:
  double begin_;
  double gradients_ = 0;
};

// Which images of the training data go, and which stay, in order.
struct TrainingImages {
  std::vector<std::size_t> forgotten, retained;
};
[[nodiscard]] TrainingImages images_of(const RivalInput& input);

// At most `per_class` images of each class, drawn at random: what closed forms are estimated from.
inline constexpr std::size_t kSamplesPerClass = 1000;
[[nodiscard]] TrainingImages sample_images(const RivalInput& input,
                                           std::size_t per_class = kSamplesPerClass);

// The network without the output units of forgotten classes.
[[nodiscard]] nn::Network without_outputs(const nn::Network& network, const ClassSplit& split);

// Addresses the random numbers of one purpose: they depend on the network and the request, too.
[[nodiscard]] std::uint64_t random_task(const RivalInput& input, const char* purpose,
                                        std::size_t round = 0);
// `images` in an order of their own for each `round`.
[[nodiscard]] std::vector<std::size_t> shuffled(std::span<const std::size_t> images,
                                                const RivalInput& input, const char* purpose,
                                                std::size_t round = 0);

}  // namespace oubli
