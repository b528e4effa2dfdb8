#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "oubli/attack/attack.h"
#include "oubli/audit/figure.h"
#include "oubli/audit/observer.h"

// How well two populations are told apart: the audit's central figures. A new figure is a member of
// AttackLeak or ObserverLeak and a line in the list below it: files, tables and pages follow the
// lists.
namespace oubli {

// One attack, one observer, one class.
struct AttackLeak {
  Attack attack = Attack::nearest_neighbours;
  std::size_t answers = 1;  // of one network, that it is given together
  Figure advantage;         // 2 (accuracy - 1/2) on models the attack has not seen
  Figure area;              // under the ROC curve of its scores (score_figures.h)
  // Rates of true positives: seen models found where 1 % (0.1 %) of unseen ones are taken for seen;
  // and the mirror, unseen ones found.
  Figure found_1, found_1_mirror, found_01, found_01_mirror;
  std::array<std::size_t, 2> tail_answers{};  // seen, unseen: what those rates stand on

  // Behind the advantage: shares of right answers per test model of the two populations. Kept for
  // forgotten classes alone.
  std::array<std::vector<double>, 2> shares;
  std::size_t answers_per_network = 0;  // groups of `answers` answers behind each share

  // The advantage in several splits of the networks, `advantage` the first, and their mean, whose
  // interval includes what training networks matter (resplit.h). Empty where none were asked for.
  std::vector<double> splits;
  Figure over_splits;
};
// "per-image, 10 answers"
[[nodiscard]] std::string name_of(const AttackLeak& leak);

// How well one observer tells the two populations apart from the samples of one class.
struct ObserverLeak {
  Observer observer = Observer::logits;
  std::vector<AttackLeak> attacks;
  Figure ks;          // mean over random directions
  Figure ks_largest;  // over the same directions; of several classes: the mean of theirs
  Figure ks_ones;     // along (1, ..., 1), the only direction normalization changes

  // The attack with the largest advantage, the first of equal ones; null if none has a figure.
  [[nodiscard]] const AttackLeak* worst() const;
};

// A figure of `Of`: its name in JSON and CSV, in tables, and in the page's charts: the axis of an
// attack's figure, the row of an observer's (null: not drawn).
template <typename Of>
struct NamedFigure {
  const char* key;
  const char* title;
  const char* chart;
  Figure Of::*figure;
};
inline constexpr std::array kAttackFigures = {
    NamedFigure<AttackLeak>{"advantage", "advantage", "advantage (0 = guessing, 1 = certain)",
                            &AttackLeak::advantage},
    NamedFigure<AttackLeak>{"auc", "AUC", nullptr, &AttackLeak::area},
    NamedFigure<AttackLeak>{"tpr_1", "seen found at 1 %", nullptr, &AttackLeak::found_1},
    NamedFigure<AttackLeak>{"tpr_1_mirror", "unseen found at 1 %", nullptr,
                            &AttackLeak::found_1_mirror},
    NamedFigure<AttackLeak>{"tpr_01", "seen found at 0.1 %", nullptr, &AttackLeak::found_01},
    NamedFigure<AttackLeak>{"tpr_01_mirror", "unseen found at 0.1 %", nullptr,
                            &AttackLeak::found_01_mirror}};
inline constexpr std::array kObserverFigures = {
    NamedFigure<ObserverLeak>{"ks", "KS, mean", "mean over random directions", &ObserverLeak::ks},
    NamedFigure<ObserverLeak>{"ks_largest", "KS, largest", nullptr, &ObserverLeak::ks_largest},
    NamedFigure<ObserverLeak>{"ks_ones", "KS, all-ones", "all-ones direction",
                              &ObserverLeak::ks_ones}};

struct ClassLeaks {
  std::size_t label = 0;
  bool forgotten = false;
  std::size_t points_train = 0;  // rows the attacks learn from, both populations together
  std::size_t points_test = 0;
  std::vector<ObserverLeak> observers;
};

// Per class, over the forgotten and over the retained ones (means over classes; the intervals
// resample models jointly for all classes).
struct Leaks {
  std::size_t networks_train = 0;  // of either population, that attacks learnt from
  std::vector<ClassLeaks> classes;
  std::vector<ObserverLeak> forgotten;
  std::vector<ObserverLeak> retained;
};

// Null if there is none.
[[nodiscard]] const ObserverLeak* find(std::span<const ObserverLeak> leaks, Observer observer);
[[nodiscard]] const AttackLeak* find(const ObserverLeak* leak, Attack attack,
                                     std::size_t answers = 1);
[[nodiscard]] const ClassLeaks* find(std::span<const ClassLeaks> classes, std::size_t label);

// from_json: Error{bad_input} that begins with the place.
void to_json(nlohmann::json& json, const Leaks& leaks);
void from_json(const nlohmann::json& json, Leaks& leaks);

}  // namespace oubli
