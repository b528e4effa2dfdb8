#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <stop_token>
#include <vector>

#include "oubli/attack/attack.h"
#include "oubli/audit/figure.h"
#include "oubli/audit/observer.h"
#include "oubli/audit/population.h"

namespace oubli {

struct AuditOptions {
  std::vector<Attack> attacks{Attack::nearest_neighbours, Attack::forest, Attack::adaboost,
                              Attack::logistic};
  std::vector<Observer> observers{Observer::logits, Observer::probabilities, Observer::label};
  // Share of the models, never of the rows, that attacks learn from; the rest is the test.
  double train_share = 0.7;
  // Images per model and class that attacks see, drawn anew for each model; 0: all. The paper has
  // 150, and 100 for MNIST's retained classes.
  std::size_t images_forgotten = 0;
  std::size_t images_retained = 0;
  bool retained = true;           // audit the retained classes too
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

// One attack, one observer, one class: 2 (accuracy - 1/2) on models the attack has not seen.
struct AttackFigure {
  Attack attack = Attack::nearest_neighbours;
  Figure advantage;
};

// How well one observer tells the two populations apart from the samples of one class.
struct ObserverLeak {
  Observer observer = Observer::logits;
  std::vector<AttackFigure> attacks;
  std::size_t worst = 0;  // index into `attacks` of the largest advantage
  Figure ks;              // mean over random directions
  Figure ks_largest;      // over the same directions; of several classes: the mean of theirs
  Figure ks_ones;         // along (1, ..., 1), the only direction normalization changes
};

struct ClassLeaks {
  std::uint32_t label = 0;
  bool forgotten = false;
  std::size_t points_train = 0;  // rows the attacks learn from, both populations together
  std::size_t points_test = 0;
  std::vector<ObserverLeak> observers;
};

// The audit's central figures for two populations: per class, over the forgotten and over the
// retained ones (means over classes; the intervals resample models jointly for all classes).
struct Leaks {
  std::vector<ClassLeaks> classes;
  std::vector<ObserverLeak> forgotten;
  std::vector<ObserverLeak> retained;
};

// Intervals: bootstrap over the test models of both populations, attacks as fitted (percentile,
// expanded for small numbers of models [Hesterberg 2015, section 5.3]); Welch's below kFewModels
// test models (bootstrap.h). Those of the KS statistics: jackknife over all models, around the
// statistic's expected value for this many models. That is above 0 even where the populations are
// equal, and so may be the whole interval: the floor is what to compare with.
[[nodiscard]] Leaks tell_apart(const Population& first, const Population& second,
                               const AuditSamples& samples, const AuditOptions& options);

void to_json(nlohmann::json& json, const ObserverLeak& leak);
void to_json(nlohmann::json& json, const ClassLeaks& leaks);
void to_json(nlohmann::json& json, const Leaks& leaks);

}  // namespace oubli
