#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "oubli/attack/attack.h"
#include "oubli/audit/leaks.h"
#include "oubli/audit/observer.h"
#include "oubli/audit/population.h"

namespace oubli {

struct AuditOptions {
  std::vector<Attack> attacks{Attack::nearest_neighbours, Attack::forest,
                              Attack::adaboost,           Attack::logistic,
                              Attack::per_image,          Attack::per_image_spread};
  // How many answers of one network attacks per image are given together. They see all images of
  // the class, whatever `images_forgotten` and `images_retained` say.
  std::vector<std::size_t> answers{1, 10, 100};
  std::vector<Observer> observers{Observer::logits, Observer::probabilities, Observer::label};
  // Share of the models, never of the rows, that attacks learn from; the rest is the test.
  double train_share = 0.7;
  std::size_t split = 0;  // which random split of the models into those (resplit.h)
  // Images per model and class that attacks see, drawn anew for each model; 0: all. The paper has
  // 150, and 100 for MNIST's retained classes.
  std::size_t images_forgotten = 0;
  std::size_t images_retained = 0;
  bool retained = true;           // audit the retained classes too
  bool all = false;               // not only what sampling.h takes of large arrays
  std::size_t directions = 1000;  // of the KS statistic; 0: leave it out
  std::size_t bootstrap = 1000;   // resamples for the intervals; 0: none
  std::uint64_t seed = 0;
  unsigned workers = 1;
  std::stop_token stop = {};
  std::function<void()> on_class = {};  // called when a class is done, for progress
};

// The samples by true class, and which of the classes are forgotten.
struct AuditSamples {
  std::span<const std::uint32_t> labels;  // in [0, classes), original numbering
  std::size_t classes = 0;                // k, the forgotten ones included
  std::vector<std::size_t> forgotten;     // ascending
};

// Intervals: bootstrap over the test models of both populations, attacks as fitted (percentile,
// expanded for small numbers of models [Hesterberg 2015, section 5.3]); Welch's below kFewModels
// test models (bootstrap.h). Those of the KS statistics: jackknife over all models, around the
// statistic's expected value for this many models. That is above 0 even where the populations are
// equal, and so may be the whole interval: the floor is what to compare with.
[[nodiscard]] Leaks tell_apart(const Population& first, const Population& second,
                               const AuditSamples& samples, const AuditOptions& options);

}  // namespace oubli
